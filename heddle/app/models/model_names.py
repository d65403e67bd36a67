"""What the name of a model that answers stands for."""

from pathlib import Path

from heddle.engines.reading.installed import EXTRACT


def is_extractor(name: str | Path | None) -> bool:
    """Whether a name stands for the extractor that comes with Heddle."""
    return str(name) == EXTRACT


def default_workflow(generator: str | Path | None) -> str:
    """Return the ready-made workflow of requests that name none; None = no model answers."""
    return "quote" if generator is None or is_extractor(generator) else "oneshot"
