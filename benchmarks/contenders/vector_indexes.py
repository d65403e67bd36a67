"""Ways to search real vectors: ours, FAISS's, and those of hnswlib and usearch."""

import importlib.util
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.data import array_digest, made_from
from benchmarks.support.fixed_source import FixedSource
from benchmarks.support.search_methods import K, Labels, Method, Search
from benchmarks.support.search_set import SearchSet
from heddle.core.commands import Admit, Steer
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex, nlist_for
from heddle.engines.vector.ivf.search import IvfSearch
from heddle.engines.vector.perf_clock import PerfClock

LINKS: Final = 16  # M of every graph
BUILD_BREADTH: Final = 200  # efConstruction of every graph
NPROBES: Final = (2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 192)
BREADTHS: Final = (16, 32, 64, 96, 128, 192, 256, 384)
SLOTS: Final = 256


def ours(data: SearchSet) -> Iterable[Method]:
    """Yield our default, our exact mode, and our scan of whole vectors in lists."""
    source = FixedSource(data.vectors)
    nlist = nlist_for(len(data.vectors))
    nprobes = tuple(nprobe for nprobe in NPROBES if nprobe <= nlist)
    for name, kind, settings in (
        ("heddle default", IndexKind.PQ, nprobes),
        ("heddle exact", IndexKind.PANORAMA, (nlist,)),
        ("heddle lists, exact", IndexKind.FLAT, (nlist,)),
    ):
        corpus = FollowedIvf(LiveIndex.build(source, kind=kind), source)
        engine = ivf_engine("vector", 0, corpus, PerfClock(), slots=SLOTS)
        engine.apply(Steer(budget_s=math.inf))  # alone on its core, a batch isn't stepped
        yield Method(name, _EngineSearch(engine), settings)


def peers(data: SearchSet) -> Iterable[Method]:
    """Yield the peers that are installed, built or read from the cache; ids are 1 to n."""
    vectors = data.vectors
    nlist = nlist_for(len(vectors))
    yield Method("FAISS Flat", _faiss_flat(vectors), (0,))
    nprobes = tuple(nprobe for nprobe in NPROBES if nprobe < nlist)
    yield Method("FAISS IVFFlat", _faiss_ivf(vectors, nlist), (*nprobes, nlist))
    folder = made_from(
        "graphs", {"vectors": array_digest(vectors), "M": LINKS, "breadth": BUILD_BREADTH}
    )
    yield Method("FAISS HNSW", _faiss_hnsw(vectors, folder / "faiss.hnsw"), BREADTHS)
    for name, make in (("hnswlib", _hnswlib), ("usearch", _usearch)):
        if importlib.util.find_spec(name) is None:
            print(f"{name}: left out, as it isn't installed (pip install {name})")
        else:
            yield Method(name, make(vectors, folder / name), BREADTHS)


class _EngineSearch:
    """Searches through an engine: one task for each batch, stepped until it is done."""

    def __init__(self, engine: SearchEngine[IvfSearch]) -> None:
        self._engine = engine
        self._tasks = 0

    def __call__(self, queries: NDArray[np.float32], setting: int) -> Labels:
        self._tasks += 1
        payload = SearchPayload(queries, K, setting)
        identity = Identity(self._tasks, "search")
        task = Task(self._tasks, PrimitiveKind.SEARCHING, identity, payload)
        self._engine.apply(Admit(task, 0))
        while self._engine.has_work:
            for event in self._engine.step(0.0, math.inf).events:
                assert isinstance(event, Done), event
                assert isinstance(event.result, Hits), event
                return event.result.labels
        raise AssertionError("the search ended without a result")


def _faiss_flat(vectors: NDArray[np.float32]) -> Search:
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    return lambda queries, setting: index.search(queries, K)[1] + 1


def _faiss_ivf(vectors: NDArray[np.float32], nlist: int) -> Search:
    dims = vectors.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dims), dims, nlist)
    index.cp.min_points_per_centroid = 1
    index.train(vectors)
    index.add(vectors)

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.nprobe = setting
        return index.search(queries, K)[1] + 1

    return search


def _faiss_hnsw(vectors: NDArray[np.float32], path: Path) -> Search:
    if not path.exists():
        built = faiss.IndexHNSWFlat(vectors.shape[1], LINKS)
        built.hnsw.efConstruction = BUILD_BREADTH
        built.add(vectors)
        faiss.write_index(built, str(path.with_suffix(".part")))
        path.with_suffix(".part").replace(path)
    index = faiss.read_index(str(path))

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.hnsw.efSearch = setting
        return index.search(queries, K)[1] + 1

    return search


def _hnswlib(vectors: NDArray[np.float32], path: Path) -> Search:
    import hnswlib

    index = hnswlib.Index("l2", vectors.shape[1])
    if path.exists():
        index.load_index(str(path), max_elements=len(vectors))
    else:
        index.init_index(len(vectors), M=LINKS, ef_construction=BUILD_BREADTH, random_seed=1)
        index.add_items(vectors, np.arange(1, len(vectors) + 1), num_threads=1)
        index.save_index(str(path.with_suffix(".part")))
        path.with_suffix(".part").replace(path)

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.set_ef(setting)
        return index.knn_query(queries, K, num_threads=1)[0].astype(np.int64)

    return search


def _usearch(vectors: NDArray[np.float32], path: Path) -> Search:
    from usearch.index import Index

    index = Index(
        ndim=vectors.shape[1],
        metric="l2sq",
        dtype="f32",
        connectivity=LINKS,
        expansion_add=BUILD_BREADTH,
    )
    if path.exists():
        index.load(str(path))
    else:
        index.add(np.arange(1, len(vectors) + 1), vectors, threads=1)
        index.save(str(path.with_suffix(".part")))
        path.with_suffix(".part").replace(path)

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.expansion_search = setting
        return index.search(queries, K, threads=1).keys.astype(np.int64)

    return search
