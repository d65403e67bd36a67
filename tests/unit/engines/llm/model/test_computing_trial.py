"""A layer of any model that can be served is timed in seconds; what is asked for is not."""

import pytest

from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.engines.llm.attention.choice import COMPILED, TORCH
from heddle.engines.llm.chosen_computing import Candidate, Choice
from heddle.engines.llm.model.computing_trial import choose_computing
from tests.helpers.tiny_models import FAMILIES, tiny_model


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Return a model's folder; the cache is the test's own."""
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HEDDLE_AUTO_DTYPE", raising=False)
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("family", FAMILIES)
def test_every_candidate_is_timed(family, folder):
    config = tiny_model(family).config
    choice = choose_computing(folder, config, "auto", "auto")
    dtypes = ("bfloat16", "float32") if multiplies_bfloat16() else ("float32",)
    timed = [candidate for candidate, _ in choice.seconds]
    assert timed == [Candidate(dtype, way) for dtype in dtypes for way in (COMPILED, TORCH)]
    assert all(seconds > 0 for _, seconds in choice.seconds)
    assert config.num_hidden_layers > 1, "the model's own configuration stays as it is"
    assert choose_computing(folder, config, "auto", "auto") == choice


def test_what_is_asked_for_is_taken_untimed(monkeypatch, folder):
    config = tiny_model("llama").config
    asked = choose_computing(folder, config, "float32", TORCH)
    assert asked == Choice(Candidate("float32", TORCH))
    monkeypatch.setenv("HEDDLE_AUTO_DTYPE", "float32")
    assert choose_computing(folder, config, "auto", COMPILED) == Choice(
        Candidate("float32", COMPILED)
    )
