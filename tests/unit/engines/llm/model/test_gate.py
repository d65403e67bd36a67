"""What can't be served exactly is refused at load, with the reason and the fix."""

import json

import pytest
import torch
from safetensors.torch import save_file

from heddle.core.errors import ConfigError
from heddle.engines.llm.model import gate as model_gate
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


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("max_position_embeddings", 512.0, "expected int, got float"),
        ("num_attention_heads", 11, "not a multiple of the number of attention heads"),
        ("rope_scaling", {"rope_type": "yarn"}, "Missing required keys .*'factor'"),
    ],
)
def test_a_field_that_can_not_be_is_named(tmp_path, field, value, reason):
    (tmp_path / "model.safetensors").touch()
    sizes = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, field: value}
    (tmp_path / "config.json").write_text(json.dumps(sizes), encoding="utf-8")
    with pytest.raises(ConfigError, match=reason):
        model_gate.load_config(tmp_path)


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere is not a directory"):
        model_gate.load_config(tmp_path / "nowhere")


def fingerprint_of(folder, tensors, dtype="float32", config="{}"):
    (folder / "config.json").write_text(config, encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return model_gate.fingerprint(folder, dtype)


def test_the_fingerprint_follows_configuration_and_dtype(tmp_path):
    tensors = {"weight": torch.arange(6.0)}
    first = fingerprint_of(tmp_path, tensors)
    assert fingerprint_of(tmp_path, tensors) == first
    assert fingerprint_of(tmp_path, tensors, dtype="bfloat16") != first
    assert fingerprint_of(tmp_path, tensors, config='{"rope_theta": 2}') != first


@pytest.mark.parametrize("changed", range(40))
def test_the_fingerprint_follows_every_tensor_wherever_it_lies(tmp_path, changed):
    """Such as a LoRA that was merged into one layer: header and size stay the same."""
    tensors = {f"layer.{number:02}": torch.full((25_000,), 1.0) for number in range(40)}
    first = fingerprint_of(tmp_path, tensors)
    tensors[f"layer.{changed:02}"] += 2**-10
    assert fingerprint_of(tmp_path, tensors) != first


@pytest.mark.parametrize("changed", [0, 1, 500, 998, 999])
def test_of_a_small_tensor_every_number_counts(tmp_path, changed):
    norm = torch.ones(1000)
    first = fingerprint_of(tmp_path, {"norm": norm, "weight": torch.ones(300_000)})
    norm[changed] = 2.0
    assert fingerprint_of(tmp_path, {"norm": norm, "weight": torch.ones(300_000)}) != first


def test_the_fingerprint_follows_the_middle_of_a_long_tokenizer(tmp_path):
    first = fingerprint_of(tmp_path, {"weight": torch.ones(1)}, config="a" * 3_000_000)
    other = f"{'a' * 1_500_000}b{'a' * 1_499_999}"
    assert fingerprint_of(tmp_path, {"weight": torch.ones(1)}, config=other) != first


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + 7 * b"\0" + b"[]"])
def test_weights_without_a_header_are_refused(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match=r"model.safetensors has no safetensors header"):
        model_gate.fingerprint(tmp_path, "float32")


@pytest.mark.parametrize(
    "offsets", [[0], [0, 4, 8], ["0", "4"], [0.0, 4.0], [4, 0], [-4, 4], [0, 999], None, 3]
)
def test_a_tensor_that_lies_nowhere_is_refused_by_name(tmp_path, offsets):
    header = json.dumps({"norm": {"data_offsets": offsets}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(8)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match=r"tensor 'norm' lies at .* of 8 bytes.*copy it again"):
        model_gate.fingerprint(tmp_path, "float32")


def test_weights_that_were_cut_short_are_refused(tmp_path):
    fingerprint_of(tmp_path, {"weight": torch.ones(3000)})
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ConfigError, match=r"'weight' lies at \[0, 12000\] of 11000 bytes"):
        model_gate.fingerprint(tmp_path, "float32")
