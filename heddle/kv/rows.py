"""A request's row: where the key and value of each position lie, its own or shared with others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from heddle.kv.chunk_pages import SharedPages, slots_in

Numbers = NDArray[np.int64]
_NONE: Numbers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class SlotRun:
    """Neighbouring slots [start, start + length) that hold neighbouring positions."""

    start: int
    length: int


@dataclass(frozen=True, eq=False)
class SharedKeys:
    """Keys that a row reads from a chunk's pages, which other rows read and no row writes.

    A row counts the keys that it shows in the order of their positions: these are number `places`
    in it. `chunk_slots` are those of all the chunk's tokens that the row has use for, of which only
    `kept` count (None: all): what is computed anew has slots of the row's own. `rotation` is where
    they are used minus where they were stored [tokens]: to meet them as they are, a query is
    rotated back by as much.

    Shapes: places and kept [n] int64, n > 0, ascending; chunk_slots [n or more] int64.
    """

    places: Numbers
    chunk_slots: Numbers
    kept: Numbers | None = None
    rotation: int = 0

    @cached_property
    def slots(self) -> Numbers:
        """Where the keys lie. Shapes: [n] int64."""
        return self.chunk_slots if self.kept is None else self.chunk_slots[self.kept]

    @cached_property
    def runs(self) -> tuple[SlotRun, ...]:
        """The chunk's slots as runs: what decodes read, to leave out all but `kept` then."""
        return runs_of(self.chunk_slots)

    def part(self, start: int, stop: int, shift: int) -> "SharedKeys":
        """Return those of the keys [start, stop), at places `shift` further on."""
        kept = np.arange(len(self.places)) if self.kept is None else self.kept
        return replace(self, places=self.places[start:stop] + shift, kept=kept[start:stop])


@dataclass(frozen=True, slots=True)
class SharedSpan:
    """Positions [start, stop) of a row that lie in a chunk's pages; its first token at `origin`."""

    start: int
    stop: int
    origin: int
    pages: SharedPages

    @property
    def rotation(self) -> int:
        """Where its keys are used minus where they were stored [tokens]."""
        return self.origin - self.pages.record.base

    def slots(self, positions: Numbers) -> Numbers:
        """Return the slots of some of its positions. Shapes: positions and result [n] int64."""
        return self.pages.slots[positions - self.origin]


def runs_of(slots: Numbers) -> tuple[SlotRun, ...]:
    """Return slots as runs of neighbours, in their order. Shapes: slots [n] int64."""
    if not len(slots):
        return ()
    breaks = (np.flatnonzero(slots[1:] - slots[:-1] != 1) + 1).tolist()
    bounds = [0, *breaks, len(slots)]
    return tuple(SlotRun(int(slots[a]), b - a) for a, b in pairwise(bounds))


def slots_of(runs: Sequence[SlotRun]) -> Numbers:
    """Return the slots of runs, one after another. Shapes: result [n] int64."""
    return np.concatenate([_NONE, *(np.arange(r.start, r.start + r.length) for r in runs)])


def _is_in(numbers: Numbers, some: Numbers) -> NDArray[np.bool_]:
    """Return which of the numbers are among some, ascending ones. Shapes: result as numbers."""
    places = np.searchsorted(some, numbers)
    is_found = places < len(some)
    is_found[is_found] = some[places[is_found]] == numbers[is_found]
    return is_found


class Row:
    """The pages of one sequence, and the chunks' pages that it reads beside them.

    Positions have slots of the row's own, one after another in its `pages`, except where a span
    covers them. Even there, tokens computed anew have slots of the row's own (`lay`): no shared
    page is written, and no row reads a key that has become stale. (FusionRAG §4.3)

    Mutates: `extend` and `truncate` keep `pages` and their runs in step; `share`, `lay` and `cut`
    say which positions lie where.
    """

    __slots__ = ("_laid", "_own", "_runs", "_shared", "page_size", "pages", "spans")

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.pages: list[int] = []
        self.spans: list[SharedSpan] = []
        self._runs: list[list[int]] = []  # [first page, number of pages]
        # Of the first `_laid` positions these have slots of the row's own, one after another;
        # from there on all have.
        self._own: Numbers = _NONE
        self._laid = 0
        self._shared: tuple[SharedKeys, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it holds no page at all."""
        return not self.pages and not self.spans

    @property
    def capacity(self) -> int:
        """Positions that the row's own pages can hold."""
        return len(self.pages) * self.page_size

    def own_count(self, length: int) -> int:
        """Return how many of the first `length` positions have slots of the row's own."""
        if length >= self._laid:
            return len(self._own) + length - self._laid
        return int(np.searchsorted(self._own, length))

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

    def share(self, span: SharedSpan) -> None:
        """Read a span's positions from a chunk's pages."""
        self.spans.append(span)
        self._shared += self._read_keys(span)

    def lay(self, start: int, computed: Numbers, stop: int) -> None:
        """Give these of the positions [start, stop) slots of the row's own, the others none.

        Shapes: computed [n] int64, ascending.
        """
        self._own, self._laid = np.concatenate([self._own_before(start), computed]), stop
        self._shared = tuple(keys for span in self.spans for keys in self._read_keys(span))

    def cut(self, length: int) -> list[SharedPages]:
        """Forget where the positions from `length` on lie; return the pages read no more."""
        dropped = [span.pages for span in self.spans if span.start >= length]
        kept = [span for span in self.spans if span.start < length]
        self._own, self._laid = (self._own_before(length), length) if kept else (_NONE, 0)
        self.spans = [replace(span, stop=min(span.stop, length)) for span in kept]
        self._shared = tuple(keys for span in self.spans for keys in self._read_keys(span))
        return dropped

    def slots(self, positions: Numbers) -> Numbers:
        """Return the slot of each position. Shapes: positions and result [n] int64, ascending."""
        if positions.size == 0 or positions[0] >= self._laid:
            return slots_in(self.pages, positions + len(self._own) - self._laid, self.page_size)
        is_own = (positions >= self._laid) | _is_in(positions, self._own)
        own = positions[is_own]
        places = np.searchsorted(self._own, own) + np.maximum(own - self._laid, 0)
        own_slots = slots_in(self.pages, places, self.page_size)
        if len(own) == len(positions):
            return own_slots
        slots = np.full(len(positions), -1)
        slots[is_own] = own_slots
        for span in self.spans:
            is_in = ~is_own & (positions >= span.start) & (positions < span.stop)
            slots[is_in] = span.slots(positions[is_in])
        assert not (slots < 0).any(), "a position that lies nowhere"
        return slots

    def rotations(self, length: int) -> Numbers:
        """Return how far each of the first keys is rotated from where it was stored.

        Shapes: result [length] int64.
        """
        rotations = np.zeros(length, np.int64)
        for keys in self._shared:
            rotations[keys.places[keys.places < length]] = keys.rotation
        return rotations

    def runs(self, start: int, stop: int) -> tuple[SlotRun, ...]:
        """Return what of the positions [start, stop) is the row's own, as runs of its slots."""
        runs: list[SlotRun] = []
        start, stop = self.own_count(start), self.own_count(stop)
        position = 0  # where the run at hand begins
        for first_page, page_count in self._runs:
            end = position + page_count * self.page_size
            low, high = max(start, position), min(stop, end)
            if low < high:
                runs.append(SlotRun(first_page * self.page_size + low - position, high - low))
            position = end
        assert stop <= position, f"the row holds {self.capacity} positions, not {stop}"
        return tuple(runs)

    def shared(self, visible: Sequence[tuple[int, int]]) -> tuple[SharedKeys, ...]:
        """Return what of these spans of positions, ascending, lies in chunks' pages."""
        found = []
        shift = 0  # from a position to the number of its key
        for start, stop in _joined(visible):
            shift -= start
            for keys in self._shared:
                first, last = int(keys.places[0]), int(keys.places[-1])
                if start <= first and last < stop and not shift:
                    found.append(keys)
                elif first < stop and last >= start:
                    low, high = np.searchsorted(keys.places, (start, stop)).tolist()
                    if low < high:
                        found.append(keys.part(low, high, shift))
            shift += stop
        return tuple(found)

    def stored(self, start: int, stop: int) -> tuple[tuple[SlotRun, ...], int]:
        """Return where the keys of a chunk lie as they were loaded, and how far they rotate."""
        for span in self.spans:
            if span.start <= start and stop <= span.stop:
                return runs_of(span.slots(np.arange(start, stop))), span.rotation
        return self.runs(start, stop), 0

    def _own_before(self, stop: int) -> Numbers:
        """Return the positions before `stop` with slots of the row's own."""
        return np.append(self._own[self._own < stop], np.arange(self._laid, stop))

    def _read_keys(self, span: SharedSpan) -> tuple[SharedKeys, ...]:
        """Return a span's keys that the row has no slots of its own for, if there are any."""
        positions = np.arange(span.start, min(span.stop, self._laid))
        first, last = np.searchsorted(self._own, (span.start, span.stop)).tolist()
        if len(positions) <= last - first:
            return ()
        slots = span.slots(positions)
        if first == last:
            return (SharedKeys(positions, slots, None, span.rotation),)
        kept = np.delete(np.arange(len(positions)), self._own[first:last] - span.start)
        return (SharedKeys(positions[kept], slots, kept, span.rotation),)


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ascending spans with those joined that touch."""
    joined: list[tuple[int, int]] = []
    for start, stop in spans:
        if joined and joined[-1][1] == start:
            start = joined.pop()[0]
        joined.append((start, stop))
    return joined
