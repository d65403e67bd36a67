"""The keys of a row as the Triton kernel takes them: its own, then those of each chunk."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.rows import Numbers, SharedKeys, slots_of

ITEM_FIELDS: Final = 5  # of what a program of the kernel computes; see `triton_rows.Launch`


@dataclass(frozen=True, eq=False)
class ChunkKeys:
    """What a row reads of chunks' pages: the same from one step to the next while it decodes."""

    shared: tuple[SharedKeys, ...]

    @cached_property
    def counts(self) -> Numbers:
        """How many keys of each chunk are read. Shapes: [chunks] int64."""
        return np.asarray([len(keys.places) for keys in self.shared])

    @cached_property
    def rotations(self) -> Numbers:
        """By how much each chunk's keys are rotated [tokens]. Shapes: [chunks] int64."""
        return np.asarray([keys.rotation for keys in self.shared])

    @cached_property
    def stop(self) -> int:
        """Behind the last place of all."""
        return 1 + max(int(keys.places[-1]) for keys in self.shared)

    @cached_property
    def own_before(self) -> Numbers:
        """The places before `stop` that lie in no chunk's pages. Shapes: [n] int64, ascending."""
        is_own = np.ones(self.stop, np.bool_)
        for keys in self.shared:
            is_own[keys.places] = False
        return np.flatnonzero(is_own)

    @cached_property
    def runs(self) -> Numbers:
        """Where its keys lie. Shapes: see `RowKeys.runs`."""
        slots, places = (
            np.concatenate(parts)
            for parts in zip(*((keys.slots, keys.places) for keys in self.shared), strict=True)
        )
        return _runs(slots, places)


@dataclass(frozen=True, eq=False)
class RowKeys:
    """Where the keys of a row stand in the step, and where its queries stand among them.

    They are in groups that share a rotation: the row's own, and those of each chunk. Inside a
    group places ascend.

    Args:
        row: of the step.
        first: number of its first key in the step.
        chunks: those that are read of chunks' pages; None = none.
    """

    row: BatchRow
    first: int
    chunks: ChunkKeys | None

    @cached_property
    def places(self) -> Numbers:
        """Where its queries stand. Shapes: [queries] int64, ascending."""
        if self.row.places is not None:
            return self.row.places
        return np.arange(self.row.context - self.row.queries, self.row.context)

    @property
    def ends(self) -> Numbers:
        """Where its first query stands, and its last. Shapes: [2] int64."""
        if self.row.places is not None:
            return self.row.places[[0, -1]]
        return np.asarray([self.row.context - self.row.queries, self.row.context - 1])

    @cached_property
    def own_places(self) -> Numbers:
        """Where its own keys stand. Shapes: [n] int64, ascending."""
        if self.chunks is None:
            return np.arange(self.row.context)
        return np.append(self.chunks.own_before, np.arange(self.chunks.stop, self.row.context))

    @cached_property
    def counts(self) -> Numbers:
        """How many keys each group has; its own may be none. Shapes: [groups] int64."""
        if self.chunks is None:
            return np.asarray([self.row.context])
        return np.append(len(self.own_places), self.chunks.counts)

    @cached_property
    def rotations(self) -> Numbers:
        """By how much each group is rotated [tokens]. Shapes: [groups] int64."""
        return np.zeros(1, np.int64) if self.chunks is None else np.append(0, self.chunks.rotations)

    @property
    def group_firsts(self) -> Numbers:
        """The number of each group's first key in the step. Shapes: [groups] int64."""
        if self.chunks is None:
            return np.asarray([self.first])
        return self.first + np.cumsum(self.counts) - self.counts

    def seen(self, places: Numbers) -> Numbers:
        """Return behind which key of each group the queries at some places see no more.

        Shapes: places [n]; result [n, groups] int64.
        """
        if self.chunks is None:
            return self.first + np.minimum(places + 1, self.row.context)[:, None]
        counts = np.repeat(self.counts[None], len(places), axis=0)
        counts[:, 0] = np.searchsorted(self.own_places, places, side="right")
        if int(places[0]) + 1 < self.chunks.stop:
            for number, keys in enumerate(self.chunks.shared, start=1):
                counts[:, number] = np.searchsorted(keys.places, places, side="right")
        return self.group_firsts + counts

    def runs(self) -> Numbers:
        """Return where its keys lie, as runs of slots and places that follow one another.

        Shapes: result [runs, 3] int64: first slot, first place, length.
        """
        if self.chunks is None:
            places = accumulate((run.length for run in self.row.runs), initial=0)
            each = zip(self.row.runs, places, strict=False)
            return np.asarray([(run.start, place, run.length) for run, place in each])
        own = _runs(slots_of(self.row.runs), self.own_places)
        return np.concatenate([own, self.chunks.runs])


def row_keys(
    rows: Sequence[BatchRow], known: dict[tuple[SharedKeys, ...], ChunkKeys]
) -> list[RowKeys]:
    """Return the keys of a step's rows, one row after another.

    Args:
        rows: those of the step.
        known: what rows read of chunks' pages, from the step before.

    Mutates: `known` has what this step's rows read instead.
    """
    firsts = np.cumsum([0, *(row.context for row in rows)]).tolist()
    found = {
        row.shared: known.get(row.shared) or ChunkKeys(row.shared) for row in rows if row.shared
    }
    known.clear()
    known.update(found)
    return [
        RowKeys(row, first, found.get(row.shared)) for row, first in zip(rows, firsts, strict=False)
    ]


def _runs(slots: Numbers, places: Numbers) -> NDArray[np.int64]:
    """Return runs of slots and places that follow one another. Shapes: see `RowKeys.runs`."""
    if not len(slots):
        return np.empty((0, 3), np.int64)
    is_break = (np.diff(slots) != 1) | (np.diff(places) != 1)
    starts = np.append(0, np.flatnonzero(is_break) + 1)
    lengths = np.diff(np.append(starts, len(slots)))
    return np.stack([slots[starts], places[starts], lengths], axis=1)
