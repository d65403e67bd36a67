"""Which models may embed a corpus."""

import json
from pathlib import Path

import pytest

from heddle.app.models.embedder_source import open_embedder
from heddle.core.errors import ConfigError, InputError


def write_model(folder: Path, **config: object) -> Path:
    """Write what is read of a model before it is loaded."""
    folder.mkdir()
    known = {"hidden_size": 8, "max_position_embeddings": 64, **config}
    (folder / "config.json").write_text(json.dumps(known))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    "architecture", ["LlamaForCausalLM", "T5ForConditionalGeneration", "GPT2LMHeadModel"]
)
def test_a_model_that_generates_is_refused(tmp_path: Path, architecture: str):
    model = write_model(tmp_path / "llm", architectures=[architecture])
    with pytest.raises(ConfigError, match=f"is a language model \\({architecture}\\).*BERT-like"):
        open_embedder(model)


@pytest.mark.parametrize(
    "architectures", [["BertModel"], ["BertForMaskedLM"], ["T5EncoderModel"], None]
)
def test_an_encoder_is_taken(tmp_path: Path, architectures: list[str] | None):
    model = write_model(tmp_path / "encoder", architectures=architectures)
    assert open_embedder(model).dims == 8


def test_a_model_with_a_pooling_of_its_own_is_taken(tmp_path: Path):
    model = write_model(tmp_path / "pooled", architectures=["Qwen3ForCausalLM"])
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (model / "modules.json").write_text(json.dumps(modules))
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling/config.json").write_text('{"pooling_mode": "mean"}')
    assert open_embedder(model).dims == 8


def test_a_missing_one_is_named():
    with pytest.raises(InputError, match="'nope' is no directory"):
        open_embedder("nope")
    assert open_embedder(None).dims == 384
