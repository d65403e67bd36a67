"""Recorded steps give what steps give that aren't; the host stands in for the device."""

import copy

import numpy as np
import pytest
import torch

from heddle.engines.llm.attention.choice import TRITON
from heddle.engines.llm.model.recorded_decodes import sample_decodes
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kv.rows import SharedKeys, SlotRun
from tests.helpers.host_recorder import HostRecorder
from tests.helpers.tiny_models import tiny_model

pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
SLOTS, ROWS_MAX, CONTEXT_MAX = 512, 3, 96


def decodes(rows):
    """Return a step of (first slot, context, token, shared keys at the beginning, distance)."""
    own = []
    for number, (first, context, _, shared, distance) in enumerate(rows):
        parts = ()
        if shared:
            parts = (SharedKeys(np.arange(shared), 400 + np.arange(shared), None, distance),)
        run = SlotRun(first + shared, context - shared)
        draw = Draw(wants_probability=True)
        own.append(BatchRow(number, number + 1, context, (run,), draw, shared=parts))
    places = np.array([context - 1 for _, context, *_ in rows])
    slots = np.array([first + context - 1 for first, context, *_ in rows])
    return StepBatch(np.array([token for _, _, token, *_ in rows]), places, slots, tuple(own))


STEPS = [
    [(0, 9, 5, 0, 0)],
    [(0, 10, 6, 0, 0), (100, 40, 7, 0, 0)],
    [(100, 41, 3, 0, 0), (0, 11, 8, 8, 2), (200, 90, 9, 0, 0)],
    [(0, 12, 4, 8, 2)],
    [(200, 91, 2, 0, 0), (0, 13, 9, 8, 2)],
    [(100, 42, 1, 0, 0)],
]


@pytest.fixture(scope="module")
def workers():
    """A worker that launches its steps and one that replays them, over the same KV."""
    model = tiny_model("qwen3", num_hidden_layers=2)
    torch.manual_seed(0)
    both = [TransformersWorker(copy.deepcopy(model), SLOTS, attention=TRITON) for _ in range(2)]
    recorder = HostRecorder()
    both[1].record_decodes(recorder, ROWS_MAX, CONTEXT_MAX)
    for pool in (*both[0].store.keys, *both[0].store.values):
        pool.copy_(torch.randn(pool.shape))
    for mine, theirs in zip(both[1].store.keys, both[0].store.keys, strict=True):
        mine.copy_(theirs)
    for mine, theirs in zip(both[1].store.values, both[0].store.values, strict=True):
        mine.copy_(theirs)
    return *both, recorder


def test_replayed_steps_draw_and_store_what_launched_ones_do(workers):
    launched, replayed, recorder = workers
    for rows in STEPS:
        before = recorder.replays
        expected, got = launched.run(decodes(rows)), replayed.run(decodes(rows))
        assert recorder.replays == before + 1
        assert got.token_ids == expected.token_ids
        assert got.probabilities == pytest.approx(expected.probabilities, rel=1e-5)
    everywhere = np.arange(SLOTS)
    mine, theirs = replayed.export_kv(everywhere), launched.export_kv(everywhere)
    torch.testing.assert_close(mine.keys, theirs.keys, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mine.values, theirs.values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "step",
    [
        sample_decodes(ROWS_MAX + 1, is_rotated=False),
        StepBatch(
            np.array([1, 2]),
            np.array([4, 5]),
            np.array([4, 5]),
            (BatchRow(0, 2, 6, (SlotRun(0, 6),), Draw()),),
        ),
        StepBatch(
            np.array([1]), np.array([4]), np.array([4]), (BatchRow(0, 1, 5, (SlotRun(0, 5),)),)
        ),
        decodes([(0, CONTEXT_MAX * ROWS_MAX + 1, 1, 0, 0)]),
    ],
    ids=["more rows", "a prompt", "nothing drawn", "more keys"],
)
def test_other_steps_are_launched(workers, step):
    _, replayed, recorder = workers
    before = recorder.replays
    replayed.run(step)
    assert recorder.replays == before
