"""Questions without passages: wiki_single, mini_single, questions_only."""

from pathlib import Path

from heddle.evals.loaders.passage_rows import accepted_answers
from heddle.evals.question import EvalQuestion
from heddle.evals.row import Row, json_lines


def read_open_questions(path: Path) -> tuple[EvalQuestion, ...]:
    """Return questions that something has to be retrieved for.

    `gold` lists passages of the same text, so any one of them is a hit; questions_only has none.

    Raises:
        InputError: the file or a field is not as it should be.
    """
    return tuple(_question(row) for row in json_lines(path))


def _question(row: Row) -> EvalQuestion:
    gold = row.texts("gold") if row.has("gold") else ()
    return EvalQuestion(
        id=row.text("id"),
        question=row.filled_text("question"),
        answers=accepted_answers(row),
        gold=(gold,) if gold else (),
        kind=row.text("dataset"),
    )
