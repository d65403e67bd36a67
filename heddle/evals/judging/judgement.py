"""What a judge makes of an answer, and of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Self


class Unjudged(Enum):
    """Why there is no judgement."""

    MALFORMED = "malformed"  # the judge's reply is not of the form asked for
    FAILED = "failed"  # the judge gave no reply


@dataclass(frozen=True, slots=True)
class Judgement:
    """An answer's statements, each supported by the passages or not.

    Args:
        statements: that the answer makes, in the judge's words; () = it claims nothing.
        verdicts: whether each is supported; () where `unjudged`.
        unjudged: why there are no verdicts; None = there are.
        words: what went wrong; empty = nothing.
    """

    statements: tuple[str, ...] = ()
    verdicts: tuple[bool, ...] = ()
    unjudged: Unjudged | None = None
    words: str = ""

    @property
    def faithfulness(self) -> float | None:
        """The share of supported statements, in [0, 1]; None = not judged, or nothing to judge.

        Source: Ragas (Es et al. 2024, §3), which FusionRAG §5.1 takes.
        """
        return sum(self.verdicts) / len(self.verdicts) if self.verdicts else None


@dataclass(frozen=True, slots=True)
class JudgedCounts:
    """How many answers and statements were judged.

    Args:
        answers: with at least one verdict.
        statements: of these answers.
        supported: of these statements.
        malformed: answers that were not judged because the judge's reply could not be read.
        failed: answers that were not judged because there was no reply.
    """

    answers: int
    statements: int
    supported: int
    malformed: int
    failed: int

    @classmethod
    def of(cls, judgements: Sequence[Judgement]) -> Self:
        """Count judgements."""
        return cls(
            answers=sum(bool(one.verdicts) for one in judgements),
            statements=sum(len(one.verdicts) for one in judgements),
            supported=sum(sum(one.verdicts) for one in judgements),
            malformed=sum(one.unjudged is Unjudged.MALFORMED for one in judgements),
            failed=sum(one.unjudged is Unjudged.FAILED for one in judgements),
        )

    @property
    def unjudged(self) -> int:
        """Answers that could not be judged."""
        return self.malformed + self.failed
