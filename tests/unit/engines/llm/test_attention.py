"""Rows and rotations: keys stored at one place serve another. (kv-fusion: equal to fresh keys)"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from heddle.engines.llm.attention import query_blocks
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.engines.llm.worker import TransformersWorker
from heddle.kv.rows import RowSegment, SlotRun
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

    The head is stored as if it stood `distance` earlier and is turned back by its segment.
    """
    worker = TransformersWorker(tiny_model(family), slots=128)
    head, rest = prompt(HEAD, 1), prompt(REST, 2)
    runs = (SlotRun(40, HEAD), SlotRun(7, REST))
    slots = [*range(40, 40 + HEAD)]
    tail_slots = [*range(7, 7 + REST)]
    plain = BatchRow(0, 0, 0, runs, (RowSegment(0, HEAD + REST),), Draw())
    logits(worker, batch(head, 0, slots, replace(plain, runs=runs[:1])))
    expected = logits(worker, batch(rest, HEAD, tail_slots, plain))
    # The same with every query `distance` further on: only turned keys give the same result.
    turned = replace(plain, segments=(RowSegment(0, HEAD, distance), RowSegment(HEAD, HEAD + REST)))
    moved = batch(rest, HEAD, tail_slots, turned)
    moved = replace(moved, positions=moved.positions + distance)
    got = logits(worker, moved)
    forgotten = logits(
        worker, replace(moved, rows=(replace(moved.rows[0], segments=plain.segments),))
    )
    scale = expected.abs().max()
    assert (got - expected).abs().max() / scale < 2e-4
    assert (forgotten - expected).abs().max() / scale > 1e-2, "a weak test"


def visible_keys(row):
    """Return what each query sees, block by block; no query may be in two blocks."""
    found = []
    for block in query_blocks(row, torch.float32, torch.device("cpu")):
        assert block.start == len(found)
        for query in range(block.start, block.stop):
            keys = range(block.keys)
            if block.mask is not None:
                keys = [key for key in keys if block.mask[query - block.start, key] == 0.0]
            found.append(list(keys))
    return found


@pytest.mark.parametrize(("queries", "context"), [(1, 9), (9, 9), (3, 9), (8, 9), (150, 400)])
def test_queries_see_what_stands_before_them(queries, context):
    row = BatchRow(0, queries, context, (), ())
    start = context - queries
    assert visible_keys(row) == [list(range(start + query + 1)) for query in range(queries)]


def test_a_whole_prompt_needs_no_mask_on_a_gpu():
    (block,) = query_blocks(BatchRow(0, 150, 150, (), ()), torch.float32, torch.device("cuda"))
    assert block.is_causal
    assert block.mask is None
    assert (block.start, block.stop, block.keys) == (0, 150, 150)


def test_scattered_queries_see_what_stands_before_their_places():
    places = np.sort(np.random.default_rng(0).choice(500, 130, replace=False))
    row = BatchRow(0, 130, int(places[-1]) + 1, (), (), places=places)
    assert visible_keys(row) == [list(range(place + 1)) for place in places]
