"""Rows of a worker's pool laid by hand: copied or shared chunks, any positions computed."""

from dataclasses import dataclass, field

import numpy as np

from benchmarks.llm_parity import RecordingWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, SlotLoad, StepBatch
from heddle.kv.rows import RowSegment, SlotRun


@dataclass
class HandRow:
    """A prompt whose position p lies in slot `slots[p]`, its key turned by `rotations[p]`."""

    ids: list
    slots: np.ndarray
    rotations: np.ndarray = field(init=False)
    loads: list = field(default_factory=list)

    def __post_init__(self):
        self.ids = np.asarray(self.ids)
        self.rotations = np.zeros(len(self.ids), np.int64)

    def copy_in(self, start, block, base):
        """Fill positions from `start` on with a copy of stored KV."""
        slots = self.slots[start : start + block.tokens]
        self.loads.append(SlotLoad(slots, block, 0, start - base))

    def share(self, start, slots, base):
        """Let positions from `start` on read KV where it lies, as it was stored."""
        span = slice(start, start + len(slots))
        self.slots[span], self.rotations[span] = slots, start - base

    def own(self, places, slots):
        """Give positions slots of their own."""
        self.slots[places], self.rotations[places] = slots, 0

    def batch_row(self, query_start, places):
        """Return the row of a step that computes these positions."""
        context = int(places[-1]) + 1
        return BatchRow(
            query_start,
            query_start + len(places),
            context,
            tuple(SlotRun(int(s[0]), len(s)) for s in _runs(self.slots[:context], 1)),
            _segments(self.rotations[:context]),
            Draw(),
            np.asarray(places) if len(places) > 1 else None,  # one query sees all before it
        )


def _runs(numbers, step):
    return np.split(numbers, np.flatnonzero(np.diff(numbers) != step) + 1)


def _segments(rotations):
    segments, start = [], 0
    for part in _runs(rotations, 0):
        segments.append(RowSegment(start, start + len(part), int(part[0])))
        start += len(part)
    return tuple(segments)


def compute(worker: RecordingWorker, parts):
    """Run one step over (row, places) pairs; return each one's last logits [rows, vocabulary]."""
    rows, queries = [], 0
    for row, places in parts:
        rows.append(row.batch_row(queries, places))
        queries += len(places)
    places = [(row, np.asarray(places)) for row, places in parts]
    loads = [load for row, _ in parts for load in row.loads]
    for row, _ in parts:
        row.loads = []
    step = StepBatch(
        np.concatenate([row.ids[p] for row, p in places]),
        np.concatenate([p for _, p in places]),
        np.concatenate([row.slots[p] for row, p in places]),
        tuple(rows),
        tuple(loads),
    )
    worker.run(step)
    return worker.last.clone()


def chunk_block(worker, prefix, chunk, slot=0):
    """Compute a chunk right behind a prefix, from `slot` on; return its slots and its KV."""
    ids = [*prefix, *chunk]
    row = HandRow(ids, np.arange(slot, slot + len(ids)))
    compute(worker, [(row, np.arange(len(ids)))])
    slots = row.slots[len(prefix) :]
    return slots, worker.export_kv(slots)
