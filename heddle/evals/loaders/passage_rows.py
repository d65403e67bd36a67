"""Questions that come with their passages: wiki_multihop, reader-notes, files of one's own."""

from collections.abc import Iterable

from heddle.core.passages import Passage
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row

KIND_FIELDS = ("kind", "dataset")


def read_with_passages(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return questions with passages of their own.

    Fields: `question`, `answers`, `passages` (objects with `text` and perhaps `id`, `title`,
    `gold`); perhaps `id` (else `name` and a number) and `kind` (else `dataset`).

    Raises:
        InputError: a field is missing or not as it should be.
    """
    return tuple(_question(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _question(row: Row, default_id: str) -> EvalQuestion:
    question_id = row.text("id", default_id)
    listed = row.rows("passages")
    passages = tuple(_passage(item, f"{question_id}/{index}") for index, item in enumerate(listed))
    gold = tuple(
        (passage.document_id,)
        for item, passage in zip(listed, passages, strict=True)
        if item.flag("gold")
    )
    return EvalQuestion(
        id=question_id,
        question=row.filled_text("question"),
        answers=accepted_answers(row),
        passages=passages,
        gold=gold,
        kind=next((row.text(name) for name in KIND_FIELDS if row.has(name)), "all"),
    )


def accepted_answers(row: Row) -> tuple[str, ...]:
    """Return the field `answers`, each once.

    Raises:
        InputError: there are none, or one is no text.
    """
    return answers_in(row, "answers")


def answers_in(row: Row, name: str) -> tuple[str, ...]:
    """Return the answers of a field, each once.

    Raises:
        InputError: there are none, or one is no text.
    """
    answers = tuple(dict.fromkeys(answer for answer in row.texts(name) if answer.strip()))
    if not answers:
        row.refuse(name, "must have at least one answer")
    return answers


def _passage(row: Row, default_id: str) -> Passage:
    return given_passage(row.text("id", default_id), row.text("title", ""), row.text("text"))
