"""The pace at which a fake model writes an answer."""

from dataclasses import dataclass

WORD = " word"


@dataclass(frozen=True)
class Pace:
    """How an answer comes: its first token after `first_s`, the others `gap_s` apart."""

    tokens: int
    first_s: float
    gap_s: float

    def moment_s(self, number: int) -> float:
        """Return when a token comes, counted from 0, from the start of the answer [s]."""
        return self.first_s + number * self.gap_s

    @property
    def length_s(self) -> float:
        """From the start of the answer to its last token [s]."""
        return self.moment_s(self.tokens - 1)

    @property
    def text(self) -> str:
        """The whole answer."""
        return WORD * self.tokens

    @property
    def as_arguments(self) -> tuple[str, str, str]:
        """The pace as a command line has it."""
        return str(self.tokens), str(self.first_s), str(self.gap_s)

    @classmethod
    def of_arguments(cls, tokens: str, first_s: str, gap_s: str) -> "Pace":
        """Return the pace that a command line says."""
        return cls(int(tokens), float(first_s), float(gap_s))
