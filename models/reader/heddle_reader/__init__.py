"""The reader's weights as a package: where they lie, and nothing else."""

from pathlib import Path

__all__ = ["model_dir"]


def model_dir() -> Path:
    """The Hugging Face directory of the reader (config, tokenizer, chat template, weights).

    Raises FileNotFoundError when the package was built before a reader was trained.
    """
    folder = Path(__file__).parent / "model"
    if not (folder / "config.json").exists():
        raise FileNotFoundError(f"no weights in {folder}: train a reader with `make reader`")
    return folder
