"""A request's row: where the key and value of each position lie, and how far they are turned."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RowSegment:
    """Positions [start, stop) of a row whose keys share one rotation.

    `rotation` is the real start minus the base position at which the keys were stored [tokens];
    0 means the keys are stored where they are used.
    """

    start: int
    stop: int
    rotation: int = 0


@dataclass(frozen=True, slots=True)
class SlotRun:
    """Neighbouring slots [start, start + length) that hold neighbouring positions."""

    start: int
    length: int


def runs_of(slots: NDArray[np.int64]) -> tuple[SlotRun, ...]:
    """Return slots as runs of neighbours, in their order. Shapes: slots [n] int64."""
    if not len(slots):
        return ()
    breaks = (np.flatnonzero(slots[1:] - slots[:-1] != 1) + 1).tolist()
    bounds = [0, *breaks, len(slots)]
    return tuple(SlotRun(int(slots[a]), b - a) for a, b in pairwise(bounds))


class Row:
    """The pages of one sequence, and the same as runs of neighbouring slots.

    Mutates: `extend` and `truncate` keep `pages` and `runs` in step.
    """

    __slots__ = ("_runs", "page_size", "pages")

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.pages: list[int] = []
        self._runs: list[list[int]] = []  # [first page, number of pages]

    @property
    def capacity(self) -> int:
        """Positions that the pages can hold."""
        return len(self.pages) * self.page_size

    def extend(self, pages: Sequence[int]) -> None:
        """Append pages."""
        for page in pages:
            self.pages.append(page)
            if self._runs and self._runs[-1][0] + self._runs[-1][1] == page:
                self._runs[-1][1] += 1
            else:
                self._runs.append([page, 1])

    def truncate(self, page_count: int) -> list[int]:
        """Drop the pages from `page_count` on and return them, deepest first."""
        dropped = self.pages[page_count:][::-1]
        kept = self.pages[:page_count]
        self.pages, self._runs = [], []
        self.extend(kept)
        return dropped

    def slots(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slot of each position. Shapes: positions and result [n] int64."""
        if positions.size == 0:
            return positions
        table = np.asarray(self.pages, dtype=np.int64)
        return table[positions // self.page_size] * self.page_size + positions % self.page_size

    def runs(self, start: int, stop: int) -> tuple[SlotRun, ...]:
        """Return positions [start, stop) as runs of neighbouring slots, in order of position."""
        runs: list[SlotRun] = []
        position = 0  # where the run at hand begins
        for first_page, page_count in self._runs:
            end = position + page_count * self.page_size
            low, high = max(start, position), min(stop, end)
            if low < high:
                runs.append(SlotRun(first_page * self.page_size + low - position, high - low))
            position = end
        assert stop <= position, f"the row holds {self.capacity} positions, not {stop}"
        return tuple(runs)
