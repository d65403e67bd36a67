"""CacheBlend's JSON: a list of questions with their contexts, `inputs/*.json` of its repository."""

from collections.abc import Iterable

from heddle.core.passages import Passage
from heddle.evals.loaders.passage_rows import accepted_answers
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row


def read_cacheblend(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions of rows `{ctxs: [{title, text}], question, answers}`.

    A context of the few-shot sets has no title.

    Raises:
        InputError: a field is missing or not as it should be.
    """
    return tuple(_question(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _question(row: Row, question_id: str) -> EvalQuestion:
    return EvalQuestion(
        id=question_id,
        question=row.filled_text("question"),
        answers=accepted_answers(row),
        passages=tuple(
            _passage(item, f"{question_id}/{index}") for index, item in enumerate(row.rows("ctxs"))
        ),
    )


def _passage(row: Row, passage_id: str) -> Passage:
    return given_passage(passage_id, row.text("title", ""), row.text("text"))
