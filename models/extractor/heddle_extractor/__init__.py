"""The extractor's weights as a package: what MiniLM has learned about answers."""

from pathlib import Path

__all__ = ["model_dir"]

_HOME = Path(__file__).parent


def model_dir() -> Path:
    """The folder with the extractor's config and trained weights.

    Its embeddings and its tokenizer are those of heddle-embedder.

    Raises FileNotFoundError when the package was built before an extractor was trained.
    """
    folder = _HOME / "model"
    if not (folder / "config.json").exists():
        raise FileNotFoundError(f"no weights in {folder}: train them with `make extractor`")
    return folder
