"""A plain BERT without transformers: the same states, and only where they are the same."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from heddle.encoder.encoder_directory import EncoderDirectory, default_model_dir
from heddle.engines.embedding.packed_encoder import PackedEncoder
from heddle.engines.embedding.padded_encoder import PaddedEncoder

CPU = torch.device("cpu")
ROWS = [[101, *range(2000, 2000 + n), 102] for n in (1, 40, 7, 200)]


@pytest.fixture(scope="module")
def directory() -> EncoderDirectory:
    return EncoderDirectory.open(None)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 0.15)])
def test_states_are_those_of_transformers(directory, dtype: torch.dtype, atol: float) -> None:
    packed = PackedEncoder.load(directory, dtype, CPU)
    padded = PaddedEncoder.load(directory, dtype, CPU)
    assert packed.dtype == padded.dtype == dtype
    with torch.inference_mode():
        (states, mask), (expected, expected_mask) = packed.states(ROWS), padded.states(ROWS)
    assert torch.equal(mask, expected_mask)
    assert (states[mask == 0] == 0).all()
    np.testing.assert_allclose(states[mask == 1], expected[mask == 1], atol=atol)


def test_a_row_has_the_same_bits_with_any_mates(directory) -> None:
    packed = PackedEncoder.load(directory, torch.float32, CPU)
    with torch.inference_mode():
        together, _ = packed.states(ROWS)
        alone, _ = packed.states(ROWS[1:2])
    np.testing.assert_allclose(together[1, : len(ROWS[1])], alone[0], atol=1e-6)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("model_type", "roberta"),
        ("hidden_act", "relu"),
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
    ],
)
def test_other_models_are_left_to_transformers(
    directory, tmp_path: Path, entry: str, value: object
) -> None:
    assert PackedEncoder.takes(directory, CPU)
    assert not PackedEncoder.takes(directory, torch.device("cuda"))
    for file in default_model_dir().iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((default_model_dir() / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({**config, entry: value}))
    assert not PackedEncoder.takes(EncoderDirectory.open(str(tmp_path)), CPU)


def test_a_lane_with_it_never_imports_transformers() -> None:
    script = (
        "import sys; from heddle.engines.embedding.build import EmbeddingSettings, build_engine; "
        "build_engine('e', 1, EmbeddingSettings(device='cpu')); "
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
