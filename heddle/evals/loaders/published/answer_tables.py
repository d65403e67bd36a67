"""Tables with a question a line: `TruthfulQA.csv` and FinQABench's CSV files."""

from collections.abc import Iterable

from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row


def read_truthful(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return TruthfulQA's questions (Lin et al. 2022); the best and all correct answers are right.

    Raises:
        InputError: a column is missing or empty.
    """
    return tuple(
        EvalQuestion(
            id=f"{name}-{number}",
            question=row.filled_text("Question"),
            answers=_correct(row),
            kind=row.text("Category", "all"),
        )
        for number, row in enumerate(rows, start=1)
    )


def read_finqabench(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return FinQABench's questions, each with its context as gold passage.

    Raises:
        InputError: a column is missing or empty.
    """
    return tuple(_with_context(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _correct(row: Row) -> tuple[str, ...]:
    """Return the accepted answers, the best first; `Correct Answers` has semicolons between."""
    listed = (one.strip() for one in row.text("Correct Answers", "").split(";"))
    return tuple(dict.fromkeys((row.filled_text("Best Answer"), *filter(None, listed))))


def _with_context(row: Row, question_id: str) -> EvalQuestion:
    passage_id = f"{question_id}/context"
    title = row.text("filename", "")
    return EvalQuestion(
        id=question_id,
        question=row.filled_text("query"),
        answers=(row.filled_text("expected_response"),),
        passages=(given_passage(passage_id, title, row.filled_text("context")),),
        gold=((passage_id,),),
        kind=row.text("category", "all"),
    )
