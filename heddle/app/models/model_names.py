"""Names that stand for the extractor."""

from pathlib import Path

from heddle.engines.reading.installed import EXTRACT


def is_extractor(name: str | Path | None) -> bool:
    """Whether a name stands for the extractor that comes with Heddle."""
    return str(name) == EXTRACT
