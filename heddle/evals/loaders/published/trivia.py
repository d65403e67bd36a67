"""TriviaQA: `qa/*.json` of triviaqa-rc and triviaqa-unfiltered. (Joshi et al. 2017)"""

from heddle.evals.question import EvalQuestion
from heddle.evals.row import Row


def read_trivia(row: Row) -> tuple[EvalQuestion, ...]:
    """Return the questions; its documents are other files, to be indexed from `evidence/`.

    Any alias of the answer is right, and so is what people answered (`HumanAnswers`).

    Raises:
        InputError: a field is missing or not as it should be. The test files have no answers.
    """
    return tuple(_question(one) for one in row.rows("Data"))


def _question(row: Row) -> EvalQuestion:
    if not row.has("Answer"):
        row.refuse("Answer", "must be there: the test files have none, take a dev file")
    answer = row.row("Answer")
    others = (
        text
        for name in ("Aliases", "HumanAnswers")
        if answer.has(name)
        for text in answer.texts(name)
        if text.strip()
    )
    return EvalQuestion(
        id=row.filled_text("QuestionId"),
        question=row.filled_text("Question"),
        answers=tuple(dict.fromkeys((answer.filled_text("Value"), *others))),
        kind=answer.text("Type", "all"),
    )
