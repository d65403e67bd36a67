"""A corpus whose searches take as long as its answers: the passages among millions of neighbours.

The vectors of the real passages, and copies of them at the distance of their nearest neighbour in a
random direction, in inverted lists of whole vectors. Each copy carries the id of some passage drawn
at random, so that every hit is a passage that can be read.
"""

import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.data import made_from
from benchmarks.support.fixed_source import NoSource
from benchmarks.support.wiki_index import WikiIndex
from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.search import IvfSearch
from heddle.engines.vector.perf_clock import PerfClock

SPREAD_SAMPLE: Final = 2_000  # passages whose nearest neighbour is looked up
ADD_ROWS: Final = 50_000
TRAIN_PER_LIST: Final = 39  # the least that FAISS takes without a warning
TRAIN_ROUNDS: Final = 5
PAGE_BYTES: Final = 4096
READ_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class HeavyShape:
    """How many vectors, in how many lists; `passages` real ones lie among them."""

    count: int
    nlist: int
    passages: int
    seed: int


@dataclass(frozen=True, slots=True)
class HeavySettings:
    """What a lane over such an index is made of; `speculates` as in `VectorSettings`."""

    path: Path
    threads: int = 1
    order: CallOrder = SHORTEST_FIRST
    speculates: bool = False


def heavy_index(wiki: WikiIndex, count: int, seed: int) -> Path:
    """Return the file of the index, made first where it isn't there."""
    shape = HeavyShape(count, lists_of(count), wiki.passages, seed)
    path = made_from("heavy-index", asdict(shape)) / "index.faiss"
    if not path.exists():
        started_s = time.perf_counter()
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        faiss.write_index(_built(shape, *_passages(wiki.directory)), str(temporary))
        temporary.replace(path)
        print(f"made {path.name} of {count} vectors in {time.perf_counter() - started_s:.0f} s")
    with path.open("rb", buffering=0) as file:  # in one go, for the lanes that map it
        while file.read(READ_BYTES):
            pass
    return path


def lists_of(count: int) -> int:
    """Return how many inverted lists hold this many vectors."""
    return round(4 * math.sqrt(count))


def build_engine(name: str, epoch: int, settings: HeavySettings) -> SearchEngine[IvfSearch]:
    """Return a lane's engine over an index that doesn't change."""
    faiss.omp_set_num_threads(settings.threads)
    # Mapped: the lanes of all contenders share the pages of one file.
    index = faiss.read_index(str(settings.path), faiss.IO_FLAG_MMAP_IFC)
    # A search that waited for the disk, or for its pages to be mapped, would be measured.
    _touch(index)
    corpus = FollowedIvf(LiveIndex(index, 0), NoSource(), threads=settings.threads)
    finality = Finality() if settings.speculates else None
    return ivf_engine(name, epoch, corpus, PerfClock(), order=settings.order, finality=finality)


def _touch(index: faiss.IndexIVFFlat) -> None:
    """Read every vector once."""
    for number in range(index.nlist):
        count = index.invlists.list_size(number)
        if count:
            codes = faiss.rev_swig_ptr(index.invlists.get_codes(number), count * index.code_size)
            codes[:: PAGE_BYTES // 2].max()


def _passages(directory: Path) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids [n] and vectors [n, d] of all passages."""
    with CorpusStore.open(directory) as store:
        batches = list(store.vectors())
    ids = np.concatenate([batch.chunk_ids for batch in batches])
    return ids, np.concatenate([batch.vectors for batch in batches])


def _built(
    shape: HeavyShape, ids: NDArray[np.int64], vectors: NDArray[np.float32]
) -> faiss.IndexIVFFlat:
    rng = np.random.default_rng(shape.seed)
    spread = _neighbour_distances(vectors, rng)
    dims = vectors.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dims), dims, shape.nlist, faiss.METRIC_L2)
    index.cp.seed = shape.seed + 1
    index.cp.max_points_per_centroid = TRAIN_PER_LIST
    index.cp.niter = TRAIN_ROUNDS
    trained = min(shape.count, TRAIN_PER_LIST * shape.nlist)
    index.train(_copies(vectors, spread, rng, trained))
    index.add_with_ids(vectors, ids)
    while index.ntotal < shape.count:
        count = min(ADD_ROWS, shape.count - index.ntotal)
        index.add_with_ids(_copies(vectors, spread, rng, count), rng.choice(ids, count))
    return index


def _neighbour_distances(
    vectors: NDArray[np.float32], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return how far passages are from their nearest neighbour, of a sample, [m]."""
    exact = faiss.IndexFlatL2(vectors.shape[1])
    exact.add(vectors)
    sample = rng.choice(len(vectors), min(SPREAD_SAMPLE, len(vectors)), replace=False)
    squares, _ = exact.search(vectors[sample], 2)
    distances: NDArray[np.float32] = np.sqrt(np.maximum(squares[:, 1], 0.0))
    return distances


def _copies(
    vectors: NDArray[np.float32],
    spread: NDArray[np.float32],
    rng: np.random.Generator,
    count: int,
) -> NDArray[np.float32]:
    """Return vectors near those of the passages, each of length 1, [count, d]."""
    away = rng.standard_normal((count, vectors.shape[1]), dtype=np.float32)
    away *= (rng.choice(spread, count) / np.linalg.norm(away, axis=1))[:, None]
    away += vectors[rng.integers(len(vectors), size=count)]
    away /= np.linalg.norm(away, axis=1)[:, None]
    return away
