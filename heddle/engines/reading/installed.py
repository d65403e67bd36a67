"""Extractors that installed distributions offer, by an entry point of their own."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError

ENTRY_POINTS: Final = "heddle.extractors"
EXTRACT: Final = "extract"  # the name of the extractor that comes with Heddle


def installed_extractors() -> tuple[str, ...]:
    """Return the names of the extractors that are installed."""
    return tuple(sorted(entry.name for entry in entry_points(group=ENTRY_POINTS)))


def extractor_directory(name: str = EXTRACT) -> Path:
    """Return the directory of an installed extractor.

    Raises:
        ConfigError: it is not installed, or its package has no weights.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            try:
                return Path(entry.load()())
            except FileNotFoundError as error:
                raise ConfigError(f"the extractor {name!r} has no weights: {error}") from error
    known = ", ".join(installed_extractors()) or "none"
    raise ConfigError(
        f"the extractor {name!r} is not installed (installed: {known}); pip install "
        "heddle-extractor (./models/extractor in a checkout), or name a model directory"
    )
