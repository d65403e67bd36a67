"""Names that stand for a model without being the name of its directory."""

from pathlib import Path
from typing import Final

EXTRACT: Final = "extract"
"""The extractor: it quotes answers from passages, ranks passages, and writes nothing."""


def is_extractor(name: str | Path | None) -> bool:
    """Whether a name stands for the extractor that comes with Heddle."""
    return str(name) == EXTRACT
