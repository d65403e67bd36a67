"""The reader's weights and its evaluation set as a package."""

import gzip
import json
from pathlib import Path

__all__ = ["model_dir", "reader_notes"]

_HOME = Path(__file__).parent


def model_dir() -> Path:
    """The Hugging Face directory of the reader (config, tokenizer, chat template, weights).

    Raises FileNotFoundError when the package was built before a reader was trained.
    """
    folder = _HOME / "model"
    if not (folder / "config.json").exists():
        raise FileNotFoundError(f"no weights in {folder}: train a reader with `make reader`")
    return folder


def reader_notes() -> list[dict[str, object]]:
    """The held-back questions by kind: `kind`, `passages` (title, text), `question`, `answers`."""
    with gzip.open(_HOME / "reader-notes.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
