"""Rows and rotations: keys stored at one place serve another. (kv-fusion: equal to fresh keys)"""

from itertools import accumulate, pairwise

import numpy as np
import pytest

from heddle.engines.llm.model.fused_layers import fuse_layers
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kv.rows import SharedKeys, SlotRun
from tests.helpers.ropes import DISTANCES, PAIRED, ROPES, angle_tolerance, roped_model
from tests.helpers.tiny_models import prompt

HEAD, REST = prompt(12, 1), prompt(20, 2)
HEAD_RUN, REST_START = SlotRun(40, len(HEAD)), 7
STORED_AT = 13


def compute(worker, ids, start, slot, before=(), shared=()):
    """Compute tokens from a position and a slot on, behind these own runs and shared keys."""
    count = len(ids)
    known = sum(run.length for run in before) + sum(len(keys.places) for keys in shared)
    runs = (*before, SlotRun(slot, count))
    row = BatchRow(0, count, known + count, runs, Draw(), shared=tuple(shared))
    positions, slots = np.arange(start, start + count), np.arange(slot, slot + count)
    step = StepBatch(np.asarray(ids), positions, slots, (row,))
    return worker.logits(worker.hidden_states(step), step.rows)


def rest_behind(worker, start, sizes, own_head=(), shared=()):
    """Compute the rest behind the head in steps of these sizes; return the last one's logits."""
    for first, stop in pairwise(accumulate(sizes, initial=0)):
        computed = (SlotRun(REST_START, first),) if first else ()
        logits = compute(
            worker,
            REST[first:stop],
            start + first,
            REST_START + first,
            (*own_head, *computed),
            shared,
        )
    return logits


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("sizes", [(20,), (19, 1)], ids=["prefill", "decode"])
@pytest.mark.parametrize(
    ("rope", "is_fused"), [*((r, False) for r in ROPES), *((r, True) for r in PAIRED)]
)
def test_keys_stored_elsewhere_are_turned_to_their_place(rope, is_fused, sizes, distance):
    """Shift invariance: a whole prompt moved by `distance` has the same attention.

    The head is stored as if it stood `distance` earlier, and is read as another's chunk: by rows
    that bring its keys together, and by a decode, which turns its query back.
    """
    model = roped_model(rope)
    if is_fused:
        fuse_layers(model)
    worker = TransformersWorker(model, slots=128)
    compute(worker, HEAD, STORED_AT, HEAD_RUN.start)
    rest_at = STORED_AT + len(HEAD)
    expected = rest_behind(worker, rest_at, sizes, own_head=(HEAD_RUN,))

    def moved(rotation):
        head_slots = np.arange(HEAD_RUN.start, HEAD_RUN.start + len(HEAD))
        head = SharedKeys(np.arange(len(HEAD)), head_slots, rotation=rotation)
        return rest_behind(worker, rest_at + distance, sizes, shared=(head,))

    scale = expected.abs().max()
    assert (moved(distance) - expected).abs().max() / scale < angle_tolerance(distance)
    if distance:
        assert (moved(0) - expected).abs().max() / scale > 5e-3, "a weak test"
