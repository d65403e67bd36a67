"""What a step reports of rows whose numbers are not finite."""

import numpy as np
import pytest
import torch

from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.engines.llm.worker import TransformersWorker
from heddle.kv.rows import RowSegment, SlotRun
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
        run, segment = SlotRun(start, len(ids)), RowSegment(0, len(ids))
        rows.append(BatchRow(start, stop, len(ids), (run,), (segment,), draw))
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


def test_a_bad_vocabulary_head_breaks_the_rows_that_draw(model):
    worker = TransformersWorker(model, slots=16)
    with torch.no_grad():
        model.lm_head.weight[BAD_TOKEN, 3] = float("nan")
    assert worker.run(step((Draw(), None, Draw()))).broken_rows == {0, 2}
