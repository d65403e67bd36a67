"""How many tokens another server is sent at once: about as many as it reads in a second."""

from dataclasses import dataclass
from typing import Final

STEP_S: Final = 1.0  # of a call, at most: a question waits for those that are under way
TOKENS_MIN: Final = 512
TOKENS_MAX: Final = 32_768


@dataclass(slots=True)
class StepSize:
    """The tokens of a call that is answered in about a second, found by doubling and halving.

    Mutates: `learn` changes `tokens`.
    """

    tokens: int = TOKENS_MIN

    def learn(self, tokens: int, seconds: float) -> None:
        """Take in how long a call took [s]; a small one says nothing of large ones."""
        if 2 * tokens < self.tokens:
            return
        if seconds <= STEP_S / 2:
            self.tokens = min(2 * self.tokens, TOKENS_MAX)
        elif seconds > STEP_S:
            self.tokens = max(self.tokens // 2, TOKENS_MIN)
