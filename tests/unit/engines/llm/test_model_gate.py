"""What can't be served exactly is refused at load, with the reason and the fix."""

import json

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.llm import model_gate
from tests.helpers.tiny_models import FAMILIES, tiny_config


@pytest.mark.parametrize("family", FAMILIES)
def test_the_eight_families_pass(family):
    model_gate.check_config(tiny_config(family), 1024)


@pytest.mark.parametrize(
    ("family", "change", "reason"),
    [
        (
            "mistral",
            {"sliding_window": 512},
            r"context_tokens_max is 1024; set it to 512 or less \(--context-tokens-max 512\)",
        ),
        ("qwen3", {"layer_types": ["chunked_attention"] * 3}, "layer types"),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 64}, "sliding-window"),
        ("llama", {"attn_logit_softcapping": 50.0}, "softcap"),
        ("llama", {"final_logit_softcapping": 30.0}, "softcap"),
        ("llama", {"quantization_config": {"quant_method": "awq"}}, "quantised"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            "dynamic RoPE",
        ),
        (
            "phi3",
            {
                "rope_parameters": {
                    "rope_type": "longrope",
                    "rope_theta": 1e4,
                    "short_factor": [1.0] * 8,
                    "long_factor": [2.0] * 8,
                    "original_max_position_embeddings": 512,
                }
            },
            "longrope RoPE",
        ),
    ],
)
def test_what_attention_would_compute_wrongly_is_refused(family, change, reason):
    with pytest.raises(ConfigError, match=reason):
        model_gate.check_config(tiny_config(family, **change), 1024)


def test_a_window_that_never_slides_is_fine():
    model_gate.check_config(tiny_config("mistral", sliding_window=512), 512)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (None, "no config.json"),
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ({"model_type": "llama", "auto_map": {"AutoModel": "x.Y"}}, "remote code"),
        ({"model_type": "gpt_oss"}, "attention sinks"),
        ({"model_type": "gemma2", "final_logit_softcapping": 30.0}, "softcap"),
        ({"model_type": "mamba"}, "architecture mamba is not supported"),
        ({"model_type": "llama"}, "no safetensors weights"),
    ],
)
def test_a_directory_that_can_not_be_loaded_says_why(tmp_path, config, reason):
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ConfigError, match=reason):
        model_gate.load_config(tmp_path)


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere is not a directory"):
        model_gate.load_config(tmp_path / "nowhere")


def test_the_fingerprint_follows_configuration_weights_and_dtype(tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    first = model_gate.fingerprint(tmp_path, "float32")
    assert model_gate.fingerprint(tmp_path, "float32") == first
    assert model_gate.fingerprint(tmp_path, "bfloat16") != first
    weights.write_bytes(b"Weights")
    assert model_gate.fingerprint(tmp_path, "float32") != first
