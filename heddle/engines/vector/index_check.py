"""Whether a corpus's index holds the vectors that the corpus has."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import HeddleError
from heddle.engines.vector.corpus.source import VectorSource
from heddle.engines.vector.files.manifest import FOLDER, MANIFEST, graph_path, read_manifest
from heddle.engines.vector.graph.corpus_graph import read_live
from heddle.engines.vector.ivf.chunk_places import ChunkPlaces
from heddle.engines.vector.ivf.index_file import read_index


def index_problem(directory: Path, source: VectorSource, chunk_ids: NDArray[np.int64]) -> str:
    """Return how an index differs from its corpus; "" = it doesn't, or there is none.

    Args:
        directory: the corpus's.
        source: the corpus, which nothing writes to meanwhile.
        chunk_ids: the chunks with a vector that a search finds, [n].
    """
    try:
        if graph_path(directory).exists():
            return read_live(directory, source).problem
        if (directory / FOLDER / MANIFEST).exists():
            return _problem_of_lists(directory, source, chunk_ids)
    except HeddleError as error:
        return f"it could not be compared with the corpus: {error}"
    return ""


def _problem_of_lists(directory: Path, source: VectorSource, chunk_ids: NDArray[np.int64]) -> str:
    live = read_index(directory, source)
    if live is None:
        return "its file can't be used" if read_manifest(directory).file else ""
    live.follow(source)
    missing = len(chunk_ids)
    if live.index is not None and missing:
        missing = int((ChunkPlaces(live).lists_of(chunk_ids) < 0).sum())
    foreign = live.count - (len(chunk_ids) - missing)
    if missing or foreign:
        return f"it lacks {missing} vectors of the corpus and has {foreign} others"
    return ""
