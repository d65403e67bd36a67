"""What a step reports of rows whose numbers are not finite."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch, ValueDeviation
from heddle.kv.rows import SlotRun
from tests.helpers.tiny_models import tiny_model

BAD_TOKEN = 7
ROWS = ((3, 4, 5), (3, BAD_TOKEN, 5), (6, 8))


@pytest.fixture
def model():
    return tiny_model("llama")


def step(draws):
    """Return a step with every row as a whole prompt, in slots of its own."""
    rows, start = [], 0
    for ids, draw in zip(ROWS, draws, strict=True):
        stop = start + len(ids)
        run = SlotRun(start, len(ids))
        rows.append(BatchRow(start, stop, len(ids), (run,), draw))
        start = stop
    positions = np.concatenate([np.arange(len(ids)) for ids in ROWS])
    return StepBatch(np.concatenate(ROWS), positions, np.arange(start), tuple(rows))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("draws", [(Draw(),) * 3, (None, None, Draw()), (None,) * 3])
def test_a_row_with_a_bad_state_is_broken_even_if_nothing_is_drawn_from_it(model, bad, draws):
    worker = TransformersWorker(model, slots=16)
    sound = worker.run(step(draws))
    assert not sound.broken_rows
    with torch.no_grad():
        model.model.embed_tokens.weight[BAD_TOKEN, 3] = bad
    result = worker.run(step(draws))
    assert result.broken_rows == {1}
    assert result.token_ids[:1] == sound.token_ids[:1]
    assert result.token_ids[2:] == sound.token_ids[2:]


@pytest.mark.parametrize("checked", [1, 2, 3])
def test_rows_that_are_only_checked_say_how_far_values_move(model, checked):
    """The last rows are checked, against values that a step with other tokens has left there."""
    worker = TransformersWorker(model, slots=16)
    plain = worker.run(step((Draw(),) * 3))
    exact = worker.export_kv(np.arange(8))
    whole = step((Draw(),) * 3)
    worker.run(replace(whole, token_ids=whole.token_ids[::-1].copy()))
    before = worker.export_kv(np.arange(8))
    rows = tuple(
        row if index < 3 - checked else replace(row, draw=None, measure=ValueDeviation())
        for index, row in enumerate(whole.rows)
    )
    result = worker.run(replace(whole, rows=rows))
    assert result.token_ids == plain.token_ids[: 3 - checked]
    after = worker.export_kv(np.arange(8))
    assert not result.broken_rows
    assert set(result.measured) == set(range(3 - checked, 3))
    for index in result.measured:
        span = slice(whole.rows[index].query_start, whole.rows[index].query_stop)
        moved = (exact.values[1, :, span] - before.values[1, :, span]).square().sum((0, 2))
        assert np.allclose(result.measured[index][0], moved, rtol=1e-4)
        assert torch.allclose(after.values[:2, :, span], exact.values[:2, :, span], atol=1e-6)
        assert torch.equal(after.values[2:, :, span], before.values[2:, :, span])


def test_a_checked_row_with_a_bad_state_is_broken(model):
    worker = TransformersWorker(model, slots=16)
    with torch.no_grad():
        model.model.embed_tokens.weight[BAD_TOKEN, 3] = float("nan")
    whole = step((Draw(), None, None))
    rows = (whole.rows[0], *(replace(row, measure=ValueDeviation()) for row in whole.rows[1:]))
    assert worker.run(replace(whole, rows=rows)).broken_rows == {1}


def test_a_bad_vocabulary_head_breaks_the_rows_that_draw(model):
    worker = TransformersWorker(model, slots=16)
    with torch.no_grad():
        model.lm_head.weight[BAD_TOKEN, 3] = float("nan")
    assert worker.run(step((Draw(), None, Draw()))).broken_rows == {0, 2}
