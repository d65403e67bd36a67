"""Rows and rotations: keys stored at one place serve another. (kv-fusion: equal to fresh keys)"""

from dataclasses import replace

import numpy as np
import pytest

from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.engines.llm.worker import TransformersWorker
from heddle.kv.rows import SharedKeys, SlotRun
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

HEAD, REST = 12, 20


def batch(ids, start, slots, row):
    count = len(ids)
    return StepBatch(
        np.asarray(ids),
        np.arange(start, start + count),
        np.asarray(slots),
        (replace(row, query_start=0, query_stop=count, context=start + count),),
    )


def logits(worker, step):
    return worker.logits(worker.hidden_states(step), step.rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("distance", [1, 300])
def test_keys_stored_elsewhere_are_turned_to_their_place(family, distance):
    """Shift invariance: a whole prompt moved by `distance` has the same attention.

    The head is stored as if it stood `distance` earlier, and is read as another's chunk.
    """
    worker = TransformersWorker(tiny_model(family), slots=128)
    head, rest = prompt(HEAD, 1), prompt(REST, 2)
    runs = (SlotRun(40, HEAD), SlotRun(7, REST))
    slots = [*range(40, 40 + HEAD)]
    tail_slots = [*range(7, 7 + REST)]
    plain = BatchRow(0, 0, 0, runs, Draw())
    logits(worker, batch(head, 0, slots, replace(plain, runs=runs[:1])))
    expected = logits(worker, batch(rest, HEAD, tail_slots, plain))
    # The same with every query `distance` further on: only turned keys give the same result.
    head_slots = np.arange(40, 40 + HEAD)
    chunk = SharedKeys(np.arange(HEAD), head_slots, runs[:1], rotation=distance)
    turned = replace(plain, runs=runs[1:], shared=(chunk,))
    moved = batch(rest, HEAD, tail_slots, turned)
    moved = replace(moved, positions=moved.positions + distance)
    got = logits(worker, moved)
    as_stored = replace(moved.rows[0], shared=(replace(chunk, rotation=0),))
    forgotten = logits(worker, replace(moved, rows=(as_stored,)))
    scale = expected.abs().max()
    assert (got - expected).abs().max() / scale < 2e-4
    assert (forgotten - expected).abs().max() / scale > 1e-2, "a weak test"
