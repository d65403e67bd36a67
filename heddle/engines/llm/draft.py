"""A likely text of a generation, and how much of it a step checks beside the next token."""

import math
from dataclasses import dataclass
from typing import Final

# Of one sequence in one step: with its newest token, the queries of one small tile.
DRAFT_TOKENS_MAX: Final = 15
# Counted before the first token is checked. In loops of retrieval and generation, four texts in
# five are the text of the turn before.
PRIOR_CHECKED: Final = 5.0
PRIOR_RIGHT: Final = 4.0


@dataclass(slots=True)
class Draft:
    """A text that a decode is compared with while it writes, token by token.

    The decode's newest tokens say where in the draft it is. Once it writes something else, the
    next place is searched for where the draft has its two newest tokens, as prompt lookup does.

    Args:
        token_ids: the text; may be empty.
        offered: of it, tokens that steps had with them.
        accepted: of these, tokens that the decode wrote, so that each has saved a step.

    Mutates: `write` and `judge` count, and move the place along.
    """

    token_ids: tuple[int, ...] = ()
    offered: int = 0
    accepted: int = 0
    _checked: int = 0
    _next: int = 0
    _is_lost: bool = False
    _newest: int | None = None

    def offer(self, tokens_max: int, price: float) -> tuple[int, ...]:
        """Return the tokens that should come next, as many as are worth being checked.

        The n-th of them saves a step if all n are right. It is offered while the probability of
        that is above its price.

        Args:
            tokens_max: more are of no use, or have no room.
            price: what one token costs all that are in the step, in steps of this sequence.
        """
        if self._is_lost or tokens_max <= 0:
            return ()
        count = min(tokens_max, DRAFT_TOKENS_MAX, self._worth(price))
        return self.token_ids[self._next : self._next + count]

    def judge(self, *, is_right: bool) -> None:
        """Note whether an offered token, of which all before were right, is what was written."""
        self._checked += 1
        self.accepted += is_right

    def write(self, token: int) -> None:
        """Note the next token of the text that is written."""
        known = self.token_ids
        if not self._is_lost and self._next < len(known) and known[self._next] == token:
            self._next += 1
        else:
            self._look_for(token)
        self._newest = token

    def _look_for(self, token: int) -> None:
        """Find the place behind the two newest tokens: the first from here on, else the first."""
        known = self.token_ids
        behind = [
            place + 2
            for place in range(len(known) - 1)
            if known[place] == self._newest and known[place + 1] == token
        ]
        self._is_lost = not behind
        if behind:
            self._next = next((place for place in behind if place > self._next), behind[0])

    def _worth(self, price: float) -> int:
        """Return how many tokens in a row are right with a probability above `price`."""
        if price <= 0.0:
            return DRAFT_TOKENS_MAX
        if price >= 1.0:
            return 0
        right = (self.accepted + PRIOR_RIGHT) / (self._checked + PRIOR_CHECKED)
        return math.floor(math.log(price) / math.log(right))
