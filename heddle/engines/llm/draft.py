"""A likely text of a generation, and how much of it a step checks beside the next token."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

# Of one sequence in one step: with its newest token, the queries of one small tile.
DRAFT_TOKENS_MAX: Final = 15
# Counted before the first token is checked. In loops of retrieval and generation, four texts in
# five are the text of the turn before.
PRIOR_CHECKED: Final = 5.0
PRIOR_RIGHT: Final = 4.0


class DraftPrice(NamedTuple):
    """What checking costs all that are in a step, in steps of one sequence.

    A sequence pays `row` once for having more than one token in the step, and `token` for each
    drafted one.
    """

    row: float
    token: float


NOTHING_DRAFTED: Final = DraftPrice(math.inf, math.inf)


@dataclass(slots=True)
class Draft:
    """A text that a decode is compared with while it writes, token by token.

    The decode's newest tokens say where in the draft it is. Once it writes something else, the
    next place is searched for where the draft has its two newest tokens, as prompt lookup does.

    Args:
        token_ids: the text; may be empty.
        offered: of it, tokens that steps had with them.
        accepted: of these, tokens that the decode wrote, so that each has saved a step.

    Mutates: `write` and `judge` count, and move the place along; `give_up` ends all offers.
    """

    token_ids: tuple[int, ...] = ()
    offered: int = 0
    accepted: int = 0
    _checked: int = 0
    _next: int = 0
    _is_lost: bool = False
    _is_given_up: bool = False
    _newest: int | None = None
    _behind: dict[tuple[int | None, int], list[int]] | None = None

    def offer(
        self, tokens_max: int, price: DraftPrice, forced: tuple[int, ...] = ()
    ) -> tuple[int, ...]:
        """Return the tokens that should come next, as many as are worth being checked.

        The n-th of them saves a step if all n are right. It is offered while the probability of
        that is above its price; none is where all together are expected to save less than they
        cost.

        Args:
            tokens_max: more are of no use, or have no room.
            price: of checking them.
            forced: the text that must come next. It comes before the draft, and is checked as well:
                the same text can be written with other tokens.
        """
        likely = () if self._is_lost else self.token_ids[self._next :][:DRAFT_TOKENS_MAX]
        if likely[: len(forced)] != forced:
            likely = forced
        if not likely or tokens_max <= 0 or self._is_given_up:
            return ()
        right = (self.accepted + PRIOR_RIGHT) / (self._checked + PRIOR_CHECKED)
        wanted = min(tokens_max, DRAFT_TOKENS_MAX, _worth(right, price.token))
        offered = likely[:wanted]
        saved = right * (1.0 - right ** len(offered)) / (1.0 - right)
        return offered if saved > price.row + price.token * len(offered) else ()

    def judge(self, *, is_right: bool) -> None:
        """Note whether an offered token, of which all before were right, is what was written."""
        self._checked += 1
        self.accepted += is_right

    def give_up(self) -> None:
        """Offer nothing any more, forced or not: a step with such tokens went wrong."""
        self._is_given_up = True

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
        if self._behind is None:  # most drafts are right, and never need it
            self._behind = {}
            for place, pair in enumerate(pairwise(self.token_ids), start=2):
                self._behind.setdefault(pair, []).append(place)
        behind = self._behind.get((self._newest, token), ())
        self._is_lost = not behind
        if behind:
            self._next = next((place for place in behind if place > self._next), behind[0])


def _worth(right: float, price: float) -> int:
    """Return how many tokens in a row are right with a probability above `price`.

    Each of them is right with a probability of `right`, if all before it are.
    """
    if price <= 0.0:
        return DRAFT_TOKENS_MAX
    return 0 if price >= 1.0 else math.floor(math.log(price) / math.log(right))
