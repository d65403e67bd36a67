"""A model directory that can be planned with, and whose prompts can be counted; it has no weights.

It passes for an encoder as well.
"""

import json
from pathlib import Path

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
    """Write the files of a model, the one with weights empty."""
    folder.mkdir()
    config = {"hidden_size": 8, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(bytes(weight_bytes))
    return folder
