"""Rows of a worker's pool laid by hand: copied or shared chunks, any positions computed."""

from dataclasses import dataclass, field

import numpy as np

from benchmarks.llm_parity import RecordingWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, SlotLoad, StepBatch
from heddle.kv.rows import SharedKeys, runs_of


@dataclass
class HandRow:
    """A prompt whose position p lies in slot `slots[p]`: the chunk's that begins at `chunks[p]`.

    -1: a slot of its own.
    """

    ids: list
    slots: np.ndarray
    chunks: np.ndarray = field(init=False)
    stored: dict = field(default_factory=dict)
    loads: list = field(default_factory=list)

    def __post_init__(self):
        self.ids = np.asarray(self.ids)
        self.chunks = np.full(len(self.ids), -1)

    def copy_in(self, start, block, base):
        """Fill positions from `start` on with a copy of stored KV."""
        slots = self.slots[start : start + block.tokens]
        self.loads.append(SlotLoad(slots, block, 0, start - base))

    def share(self, start, slots, base):
        """Let positions from `start` on read KV where it lies, as it was stored."""
        span = slice(start, start + len(slots))
        self.slots[span], self.chunks[span] = slots, start
        self.stored[start] = (slots, start - base)

    def own(self, places, slots):
        """Give positions slots of their own."""
        self.slots[places], self.chunks[places] = slots, -1

    def batch_row(self, query_start, places):
        """Return the row of a step that computes these positions."""
        context = int(places[-1]) + 1
        chunks = np.unique(self.chunks[:context]).tolist()
        return BatchRow(
            query_start,
            query_start + len(places),
            context,
            runs_of(self.slots[:context][self.chunks[:context] < 0]),
            Draw(),
            np.asarray(places) if len(places) > 1 else None,  # one query sees all before it
            shared=tuple(self._shared(chunk, context) for chunk in chunks if chunk >= 0),
        )

    def _shared(self, chunk, context):
        """Return what the row reads of the chunk that begins there."""
        places = np.flatnonzero(self.chunks[:context] == chunk)
        slots, rotation = self.stored[chunk]
        kept = places - chunk if len(places) < len(slots) else None
        return SharedKeys(places, slots, kept, rotation)


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
