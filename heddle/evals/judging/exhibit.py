"""A question, its answer and the passages that the answer rests on, laid before a judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Self

from heddle.evals.judging.reply import STATEMENTS_MAX
from heddle.evals.metrics.replies import is_claimless
from heddle.evals.question import passage_text
from heddle.evals.quoted import is_declined
from heddle.evals.run import Outcome


@dataclass(frozen=True, slots=True)
class Exhibit:
    """An answer with the passages that it rests on.

    Args:
        question: as it was asked.
        answer: which claims something.
        passages: the texts that the prompt showed.
    """

    question: str
    answer: str
    passages: tuple[str, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> Self | None:
        """Return what is to be judged; None = the question failed, or its answer claims nothing."""
        answer = outcome.answer
        if answer is None or is_claimless(answer.text) or is_declined(outcome):
            return None
        passages = tuple(passage_text(one).strip() for one in answer.passages)
        return cls(outcome.case.question.question, answer.text, passages)

    def statements_prompt(self) -> str:
        """Return the request for the answer's statements."""
        return _prompt("statements").format(
            statements_max=STATEMENTS_MAX, question=self.question, answer=self.answer
        )

    def verdicts_prompt(self, statements: Sequence[str]) -> str:
        """Return the request for a verdict on each statement."""
        return _prompt("verdicts").format(
            count=len(statements),
            passages="\n\n".join(self.passages) or "(none)",
            statements="\n".join(f"{n}. {one}" for n, one in enumerate(statements, start=1)),
        )


def _prompt(name: str) -> str:
    path = files("heddle.evals.judging") / "prompts" / f"{name}.txt"
    return path.read_text(encoding="utf-8").removesuffix("\n")
