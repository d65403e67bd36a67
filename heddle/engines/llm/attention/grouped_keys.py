"""The keys of a row as the Triton kernel takes them: its own, then those of each chunk."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.rows import Numbers

ITEM_FIELDS: Final = 5  # of what a program of the kernel computes; see `triton_rows.Launch`


@dataclass(frozen=True, slots=True, eq=False)
class KeyGroup:
    """Keys of one row with one rotation: its own, or those that it reads of a chunk.

    Shapes: places [count] int64, ascending; None = 0 to count.
    """

    first: int
    count: int
    places: Numbers | None
    rotation: int

    def seen(self, place: Numbers) -> Numbers:
        """Return behind which key the queries at some places see no more. Shapes: [n] both."""
        if self.places is None:
            return self.first + np.minimum(place + 1, self.count)
        return self.first + np.searchsorted(self.places, place, side="right")


@dataclass(frozen=True, slots=True, eq=False)
class GroupedKeys:
    """Where the keys of a row stand in the step, and where its queries stand among them.

    Shapes: places [queries] int64.
    """

    row: BatchRow
    first: int
    places: Numbers
    groups: tuple[KeyGroup, ...]

    @classmethod
    def of(cls, row: BatchRow, first: int) -> "GroupedKeys":
        """Return it for a row whose first key is number `first` of the step."""
        places = row.places
        if places is None:
            places = np.arange(row.context - row.queries, row.context)
        if not row.shared:
            return cls(row, first, places, (KeyGroup(first, row.context, None, 0),))
        groups, at = [], first
        for own, rotation in ((row.own_places(), 0), *((s.places, s.rotation) for s in row.shared)):
            groups.append(KeyGroup(at, len(own), own, rotation))
            at += len(own)
        return cls(row, first, places, tuple(group for group in groups if group.count))

    def runs(self) -> NDArray[np.int64]:
        """Return where its keys lie, as runs of slots and places that follow one another.

        Shapes: result [runs, 3]: first slot, first place, length.
        """
        if not self.row.shared:
            starts = np.asarray([run.start for run in self.row.runs])
            lengths = np.asarray([run.length for run in self.row.runs])
            return np.stack([starts, np.cumsum(lengths) - lengths, lengths], axis=1)
        slots = np.concatenate(self.row.slots_by_part())
        groups = (group.places for group in self.groups)
        places = np.concatenate([own for own in groups if own is not None])
        is_break = (np.diff(slots) != 1) | (np.diff(places) != 1)
        starts = np.concatenate([[0], np.flatnonzero(is_break) + 1])
        lengths = np.diff(np.append(starts, len(slots)))
        return np.stack([slots[starts], places[starts], lengths], axis=1)
