"""What is trained is what the merged model computes."""

from pathlib import Path

import pytest
import torch
from multihop_training.adapted_llama import AdaptedLlama, Factors
from multihop_training.export import export_adapter
from multihop_training.samples import Sample
from transformers import AutoModelForCausalLM

from heddle.app.models import adapted
from heddle.app.models.adapted import merge, multihop_directory
from heddle.app.models.prompt_files import PROMPTS_FILE, prompts_of
from heddle.core.errors import InputError

SAMPLES = [Sample((5, 9, 30, 12, 40, 7, 21), 4), Sample((8, 11, 6, 19), 2)]


@pytest.fixture
def trained(base: Path) -> AdaptedLlama:
    """A model whose changes are large enough to be seen."""
    model = AdaptedLlama(base, layers=1, rank=2, seed=0)
    for factors in model.factors.values():
        assert isinstance(factors, Factors)
        torch.nn.init.normal_(factors.up, std=0.2)
    return model


def logits_of(directory: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        found = [
            model(torch.tensor([one.ids])).logits[0, one.answer_start - 1 : -1] for one in SAMPLES
        ]
    return torch.cat(found)


def test_a_merged_model_answers_as_it_did_in_training(trained, base, tmp_path):
    adapter = tmp_path / "adapter.safetensors"
    export_adapter(trained, adapter, {"base": base.name})
    merged = tmp_path / "merged"
    merged.mkdir()
    merge(base, adapter, merged)
    with torch.no_grad():
        expected = trained.answer_logits(SAMPLES)
    before, after = logits_of(base), logits_of(merged)
    assert (after - expected).norm() < 0.03 * expected.norm()  # bfloat16's rounding
    assert (before - expected).norm() > 0.1 * expected.norm()
    [answer] = prompts_of(merged).values()
    assert not answer.fence


def test_the_model_is_made_once_and_of_the_weights_it_was_trained_on(
    trained, base, tmp_path, monkeypatch
):
    monkeypatch.setattr(adapted, "smollm2_directory", lambda: base)
    adapter = tmp_path / "adapter.safetensors"
    with pytest.raises(InputError, match=r"has no weights in .*run `make multihop`"):
        multihop_directory(adapter)
    export_adapter(trained, adapter, {"base": "another"})
    with pytest.raises(InputError, match="is of 'another', not of 'tiny'"):
        multihop_directory(adapter)
    assert [path.name for path in base.parent.iterdir()] == ["tiny"]
    export_adapter(trained, adapter, {"base": base.name})
    made = multihop_directory(adapter)
    assert made.parent == base.parent
    assert (made / PROMPTS_FILE).is_file()
    written = made.stat().st_mtime_ns
    assert multihop_directory(adapter) == made
    assert made.stat().st_mtime_ns == written
