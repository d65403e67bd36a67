"""A corpus whose searches take as long as its answers: the passages among millions of neighbours.

The vectors of the real passages, and copies of them at the distance of their nearest neighbour in a
random direction, in inverted lists of whole vectors. Each copy carries the id of some passage drawn
at random, so that every hit is a passage that can be read.
"""

import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.data import made_from
from benchmarks.support.fixed_source import NoSource, Piece
from benchmarks.support.wiki_index import WikiIndex
from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.corpus.source import VectorBatch
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.files.refine_store import RefineStore
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
INDEX: Final = "index.faiss"
REFINE: Final = "refine.bin"  # beside an index of codes
MAPPED: Final = faiss.IO_FLAG_MMAP_IFC
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
    """What a lane over such an index is made of.

    Args:
        folder: of the index.
        threads: for one scan, and of FAISS.
        order: whose lists are scanned first.
        slots: queries under way at most.
        substage_budget_s: time for one step [s]; inf = searches end in the step they begin in.
        speculates: as in `VectorSettings`.
        nprobe: lists that a search scans where it doesn't say; None = by the size of the index.
    """

    folder: Path
    threads: int = 1
    order: CallOrder = SHORTEST_FIRST
    slots: int = 64
    substage_budget_s: float = 0.02
    speculates: bool = False
    nprobe: int | None = None


def heavy_index(wiki: WikiIndex, count: int, seed: int) -> Path:
    """Return the folder of the index, made first where it isn't there."""
    shape = HeavyShape(count, lists_of(count), wiki.passages, seed)
    folder = made_from("heavy-index", asdict(shape), by_model=True)
    path = folder / INDEX
    if not path.exists():
        started_s = time.perf_counter()
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        faiss.write_index(_built(shape, *_passages(wiki.directory)), str(temporary))
        temporary.replace(path)
        print(f"made {path.name} of {count} vectors in {time.perf_counter() - started_s:.0f} s")
    with path.open("rb", buffering=0) as file:  # in one go, for the lanes that map it
        while file.read(READ_BYTES):
            pass
    return folder


def default_kind_index(heavy: Path) -> Path:
    """Return the folder of the same vectors in the kind that `heddle index` chooses for them.

    It is made first where it isn't there.
    """
    flat = heavy / INDEX
    folder = made_from("heavy-default", {"made from": heavy.name, "kind": "auto"})
    if not (folder / INDEX).exists():
        started_s = time.perf_counter()
        live = LiveIndex.build(_InvertedLists(faiss.read_index(str(flat), MAPPED)))
        print(f"made a {live.kind.value} index of it in {time.perf_counter() - started_s:.0f} s")
        if live.refine is not None:
            live.refine.write(folder / REFINE)
        temporary = folder / f"{INDEX}.{os.getpid()}.tmp"
        faiss.write_index(live.index, str(temporary))
        temporary.replace(folder / INDEX)
    return folder


def is_flat(folder: Path) -> bool:
    """Whether such an index holds whole vectors, and no codes."""
    return not (folder / REFINE).exists()


def lists_of(count: int) -> int:
    """Return how many inverted lists hold this many vectors."""
    return round(4 * math.sqrt(count))


def build_engine(name: str, epoch: int, settings: HeavySettings) -> SearchEngine[IvfSearch]:
    """Return a lane's engine over an index that doesn't change."""
    faiss.omp_set_num_threads(settings.threads)
    corpus = FollowedIvf(
        _opened(settings.folder), NoSource(), settings.nprobe, threads=settings.threads
    )
    return ivf_engine(
        name,
        epoch,
        corpus,
        PerfClock(),
        slots=settings.slots,
        substage_budget_s=settings.substage_budget_s,
        order=settings.order,
        finality=Finality() if settings.speculates else None,
    )


def _opened(folder: Path) -> LiveIndex:
    if not is_flat(folder):
        index = faiss.read_index(str(folder / INDEX))
        return LiveIndex(index, 0, RefineStore.open(folder / REFINE, index.d))
    # Mapped: the lanes of all contenders share the pages of one file.
    index = faiss.read_index(str(folder / INDEX), MAPPED)
    # A search that waited for the disk, or for its pages to be mapped, would be measured.
    _touch(index)
    return LiveIndex(index, 0)


class _InvertedLists(NoSource):
    """The vectors of an index as a corpus, list by list."""

    def __init__(self, index: faiss.IndexIVFFlat) -> None:
        self._index = index

    @property
    def revision(self) -> int:
        return 1

    @property
    def vector_count(self) -> int:
        return int(self._index.ntotal)

    @property
    def dims(self) -> int:
        return int(self._index.d)

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterator[VectorBatch]:
        lists = self._index.invlists
        for number in range(self._index.nlist):
            count = lists.list_size(number)
            if count:
                codes = faiss.rev_swig_ptr(lists.get_codes(number), count * self._index.code_size)
                ids = faiss.rev_swig_ptr(lists.get_ids(number), count)
                vectors = codes.view(np.float32).reshape(count, -1)
                yield Piece(np.array(ids, np.int64), np.array(vectors))


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
