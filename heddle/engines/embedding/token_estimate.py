"""What texts will take when padded, guessed before they are tokenised."""

from collections.abc import Sequence
from dataclasses import dataclass

from heddle.costs.batch_cost import BatchShape
from heddle.engines.embedding.long_texts import LongTexts

SMOOTHING = 0.02
SPECIAL_TOKENS = 2.0
# English under WordPiece, until the first results are there.
TOKENS_PER_CHAR, PADDING = 0.25, 1.1


@dataclass(slots=True)
class TokenEstimate:
    """Learns how many tokens a character makes, and what padding adds.

    Args:
        tokens_max: longer texts are cut to it, or read in windows of it.
        long_texts: which of the two, where a task doesn't say.

    Mutates: `learn` and `learn_padding` move the ratios a little.
    """

    tokens_max: int
    long_texts: LongTexts = LongTexts.CUT
    tokens_per_char: float = TOKENS_PER_CHAR
    padding: float = PADDING

    def shape(self, texts: Sequence[str], in_windows: bool | None = None) -> BatchShape:
        """Return the padded shape that texts will probably have."""
        if in_windows is None:
            in_windows = self.long_texts is LongTexts.WINDOW
        tokens = squares = 0.0
        for text in texts:
            length = SPECIAL_TOKENS + len(text) * self.tokens_per_char
            row = min(self.tokens_max, length)
            total = length if in_windows else row
            tokens += total
            squares += total * row
        return BatchShape(tokens * self.padding, squares * self.padding)

    def learn(self, chars: int, texts: int, tokens: int) -> None:
        """Take in how many tokens texts had that weren't cut."""
        if chars:
            found = max(0.0, tokens - SPECIAL_TOKENS * texts) / chars
            self.tokens_per_char += SMOOTHING * (found - self.tokens_per_char)

    def learn_padding(self, padded_tokens: float, tokens: float) -> None:
        """Take in a step's padded tokens over those that were asked for."""
        if tokens:
            self.padding += SMOOTHING * (padded_tokens / tokens - self.padding)
