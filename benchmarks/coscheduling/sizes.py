"""How much the benchmarks of workflows measure."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Args:
        vectors: of the heavy corpus.
        blocks: blocks of each contender and corpus.
        asks: questions of a block.
        saturating: questions that the capacity is measured with.
        settings: ways to set the engines of asyncio_fifo that are tried, at most.
        calibrating: questions that each of them is tried with.
        alone: oneshots that the share of search is measured with.
        primed: chunks whose KV is stored beforehand, at most.
        reported: blocks of what is only reported beside.
        framework_blocks: blocks of each framework.
        shipped: questions that a framework's capacity is measured with.
        sweep_blocks: blocks of each row of a sweep.
        sweep_asks: questions of such a block.
        at_once: questions that come all at once.
    """

    vectors: int
    blocks: int
    asks: int
    saturating: int
    settings: int
    calibrating: int
    alone: int
    primed: int
    reported: int
    framework_blocks: int
    shipped: int
    sweep_blocks: int
    sweep_asks: int
    at_once: int


FULL: Final = Size(4_000_000, 7, 60, 120, 8, 48, 14, 4096, 2, 4, 48, 2, 40, 120)
QUICK: Final = Size(40_000, 1, 5, 5, 1, 5, 2, 64, 1, 1, 5, 1, 5, 10)


def size_of(quick: bool) -> Size:
    """Return how much a full run measures, or a quick one."""
    return QUICK if quick else FULL
