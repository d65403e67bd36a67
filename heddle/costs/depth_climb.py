"""A stress test of one lane: which burst to send next, until the largest one in time is known."""

from dataclasses import dataclass
from typing import Final

NEAR: Final = 1.3  # times the SLO: within it, a size gets another turn before it counts as too slow
PRECISION: Final = 20  # it ends within a query, or this part of the depth


@dataclass(slots=True)
class DepthClimb:
    """Makes bursts larger until the SLO breaks, then halves what lies between.

    From its first size it takes steps that double, upwards while bursts keep the SLO, downwards
    while none has. It ends within a query or 5 % of the first size that breaks the SLO. A size that
    is just beyond the SLO gets another turn: one slow moment of the machine would end the climb for
    good. `size` is the next burst's, and at the end the depth, so that others keep their neighbour.

    Args:
        queries_max: the largest burst that is sent.
        size: the first one, as near to the depth as is known.
        step: the first step.

    Mutates: `take` goes on.
    Source: WindVE §IV-B2, eqs. 7-10. Deviates: the paper's test has steps of one size (8).
    """

    queries_max: int
    size: int = 1
    step: int = 1
    depth: int = 0
    is_doubted: bool = False
    is_done: bool = False
    _broken_at: int = 0

    def __post_init__(self) -> None:
        self.size = max(1, min(self.size, self.queries_max))
        self._broken_at = self.queries_max + 1

    def take(self, share: float) -> None:
        """Take in what share of the SLO bursts of `size` took."""
        is_near = 1 < share <= NEAR
        self.is_doubted = is_near and not self.is_doubted
        if self.is_doubted:
            return
        if share <= 1:
            self.depth = self.size
        else:
            self._broken_at = self.size
        between = self._broken_at - self.depth
        self.is_done = between <= max(1, self.depth // PRECISION)
        if self.is_done:
            self.size = max(1, self.depth)
        elif self._broken_at > self.queries_max:
            self.size = min(self.depth + self._next_step(), self.queries_max)
        elif not self.depth:
            self.size = max(1, self._broken_at - self._next_step())
        else:
            self.size = self.depth + between // 2

    def _next_step(self) -> int:
        step, self.step = self.step, 2 * self.step
        return step
