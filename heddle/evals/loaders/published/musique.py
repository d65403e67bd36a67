"""MuSiQue: `musique_ans_v1.0_dev.jsonl` and `musique_full_v1.0_dev.jsonl`. (Trivedi et al. 2022)"""

from collections.abc import Iterable

from heddle.evals.metrics.replies import NOT_IN_NOTES
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row


def read_musique(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions, each with its paragraphs; gold are those marked as supporting.

    The kind is the number of hops, which begins the id: "2hop". A question of the full set
    that its paragraphs don't answer wants the reply "not in the notes".

    Raises:
        InputError: a field is missing or not as it should be. The test files have no answers.
    """
    return tuple(_question(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _question(row: Row, default_id: str) -> EvalQuestion:
    question_id = row.text("id", default_id)
    listed = row.rows("paragraphs")
    passages = tuple(
        given_passage(f"{question_id}/{index}", one.text("title", ""), one.text("paragraph_text"))
        for index, one in enumerate(listed)
    )
    is_answerable = row.flag("answerable", default=True)
    gold = tuple(
        (passage.document_id,)
        for one, passage in zip(listed, passages, strict=True)
        if one.flag("is_supporting")
    )
    return EvalQuestion(
        id=question_id,
        question=row.filled_text("question"),
        answers=_answers(row) if is_answerable else (NOT_IN_NOTES,),
        passages=passages,
        gold=gold,
        kind=question_id.partition("_")[0] if is_answerable else "unanswerable",
    )


def _answers(row: Row) -> tuple[str, ...]:
    aliases = row.texts("answer_aliases") if row.has("answer_aliases") else ()
    return tuple(dict.fromkeys((row.filled_text("answer"), *filter(str.strip, aliases))))
