"""A data set: questions, and where the passages lie that they are asked about."""

from dataclasses import dataclass
from pathlib import Path

from heddle.evals.question import EvalQuestion


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions under a name.

    Attributes:
        corpus: the data file with the gold passages of questions that carry none themselves;
            None = there is none.
        is_graded_by_kind: whether the headline is the share of right answers by kind.
        folder: the files that the questions are about, to be indexed first; None = there are none.
        skipped: why each question that can't be asked here is left out.
    """

    name: str
    questions: tuple[EvalQuestion, ...]
    corpus: str | None = None
    is_graded_by_kind: bool = False
    folder: Path | None = None
    skipped: tuple[str, ...] = ()

    @property
    def has_passages(self) -> bool:
        """Whether every question has passages of its own."""
        return all(question.passages is not None for question in self.questions)

    @property
    def has_gold(self) -> bool:
        """Whether any question says what has to be found."""
        return any(question.gold for question in self.questions)
