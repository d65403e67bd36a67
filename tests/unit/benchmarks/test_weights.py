"""weights: a text is scored the same in steps and at once, and ways are compared token by token."""

from pathlib import Path

import pytest
import torch

from benchmarks.support.text_model import TextModel
from benchmarks.support.text_reading import Foreseen, Way, compared, read_both_ways
from heddle.core.dtypes import INT8, WHOLE

TEXTS = [[3 + step * place % 23 for place in range(40)] for step in (5, 7)]


def test_a_text_is_scored_in_steps_and_at_once(tiny_directory: Path) -> None:
    model = TextModel(tiny_directory, torch.float32, WHOLE, 40)
    torch.testing.assert_close(
        model.logits(TEXTS[0], 7), model.logits(TEXTS[0], 40), rtol=1e-4, atol=1e-4
    )


def test_each_way_is_compared_with_full_weights(
    tiny_directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    rows = read_both_ways(tiny_directory, TEXTS, torch.float32)
    assert [(row["weights"], row["tokens"], row["scored"]) for row in rows] == [
        (INT8, "steps of 16", 78),
        (INT8, "at once", 78),
    ]
    for row in rows:
        assert row["same_token"] > 0.8
        assert abs(row["perplexity_rise"]) < 0.05
    same = Foreseen(torch.tensor([1, 2]), torch.tensor([0.5, 1.5]))
    other = Foreseen(torch.tensor([1, 3]), torch.tensor([1.5, 2.5]))
    one, two = (Way(torch.float32, kind, "at once") for kind in (INT8, WHOLE))
    row = compared(one, two, {one: same, two: other})
    assert row["same_token"] == 0.5
    assert row["perplexity_rise"] == pytest.approx(torch.tensor(-1.0).exp().item() - 1)
