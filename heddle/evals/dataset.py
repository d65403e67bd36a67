"""A data set: questions, and where the passages lie that they are asked about."""

from dataclasses import dataclass

from heddle.evals.question import EvalQuestion


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions under a name.

    Attributes:
        corpus: the data file with the gold passages of questions that carry none themselves;
            None = there is none.
        is_graded_by_kind: whether the headline is the share of right answers by kind.
    """

    name: str
    questions: tuple[EvalQuestion, ...]
    corpus: str | None = None
    is_graded_by_kind: bool = False

    @property
    def has_passages(self) -> bool:
        """Whether every question has passages of its own."""
        return all(question.passages is not None for question in self.questions)

    @property
    def has_gold(self) -> bool:
        """Whether any question says what has to be found."""
        return any(question.gold for question in self.questions)
