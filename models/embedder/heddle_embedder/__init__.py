"""The embedder that Heddle ships: MiniLM as a directory of weights, tokenizer and settings."""

from pathlib import Path

__all__ = ["model_dir"]

_HOME = Path(__file__).parent


def model_dir() -> Path:
    """The Hugging Face directory of the encoder.

    Raises FileNotFoundError when the package was installed without its weights.
    """
    folder = _HOME / "model"
    if not (folder / "model.safetensors").exists():
        raise FileNotFoundError(f"no weights in {folder}: install heddle-embedder again")
    return folder
