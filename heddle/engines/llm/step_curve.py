"""How many tokens of a prompt a step should compute, by how long steps of several sizes take. Pure.

Small steps leave a GPU idle, and large ones keep every decode beside them waiting. So a prompt's
chunk is the smallest one that computes nearly as many tokens a second as the best.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

SPEED_SHARE: Final = 0.9  # of the best throughput, from which a chunk is large enough


class StepPoint(NamedTuple):
    """A step's tokens of one prompt, and how long it took [s], above 0."""

    tokens: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        """Its throughput."""
        return self.tokens / self.seconds


def prompt_chunk(points: Iterable[StepPoint], step_s_max: float) -> StepPoint:
    """Return the chunk to compute prompts by: one of these points, of which there is at least one.

    Args:
        points: what was measured.
        step_s_max: how long a step may take [s]; where all take longer, it is the smallest.
    """
    by_size = sorted(points)
    allowed = [point for point in by_size if point.seconds <= step_s_max] or by_size[:1]
    best = max(point.tokens_per_s for point in allowed)
    return next(point for point in allowed if point.tokens_per_s >= SPEED_SHARE * best)
