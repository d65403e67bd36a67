"""A model directory that can be planned with, and whose prompts can be counted; it has no weights.

It passes for an encoder as well.
"""

import json
from pathlib import Path

_HEADER_BYTES = 120
TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"},
}


def write_bare_model(folder: Path, weight_bytes: int = 1000) -> Path:
    """Write the files of a model; the one with weights has this size and one row of zeros."""
    folder.mkdir()
    config = {"hidden_size": 8, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_zeros(weight_bytes))
    return folder


def _zeros(size: int) -> bytes:
    """Return a safetensors file of `size` bytes."""
    n_bytes = size - 8 - _HEADER_BYTES
    tensor = {"dtype": "U8", "shape": [n_bytes], "data_offsets": [0, n_bytes]}
    header = json.dumps({"zeros": tensor}).encode().ljust(_HEADER_BYTES)
    return _HEADER_BYTES.to_bytes(8, "little") + header + bytes(n_bytes)
