"""Where the graph of a corpus lies."""

from pathlib import Path
from typing import Final

from heddle.engines.vector.manifest import FOLDER

GRAPH: Final = "graph"


def graph_path(directory: Path) -> Path:
    """Return where the graph of a corpus directory lies; where it does, searches use it."""
    return directory / FOLDER / GRAPH
