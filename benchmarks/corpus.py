"""A corpus in SQLite and in PostgreSQL: how fast an index follows it, and what a search costs.

200,000 vectors of 384 dimensions, 2,000 with --quick, go into each store, with short texts:
`--store sqlite,postgres`. PostgreSQL is the one of `pip install -e ".[postgres,databases]"`,
reached by a socket on this machine, and writes to the disk as it does by default.

* follow_vectors_per_s: vectors that a lane reads from the PostgreSQL log in a second, all of them
  from revision 0, the best of three passes;
* x_sqlite_search_p50: median time of a search on a lane's engine over PostgreSQL, over that over
  SQLite. Each search asks the log for its newest revision. Both engines search the same vectors,
  one query in turns, after an untimed round. Bars: at least 50,000; at most 1.1.
"""

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np

from heddle.core.commands import Admit
from heddle.core.errors import InputError
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.ports import SteppedEngine
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.place import WORK_VARIABLE
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.build import VectorSettings, build_engine, refresh_index
from tools.postgres import databases

VECTORS, VECTORS_QUICK = 200_000, 2_000
DIMS: Final = 384
CLUSTERS: Final = 256
CHUNKS_EACH: Final = 100
BATCH: Final = 4_096
QUERIES, QUERIES_QUICK = 400, 20
PASSES: Final = 3
TOPK: Final = 10
STORES: Final = ("sqlite", "postgres")


def run(quick: bool, seed: int, store: str | None = None) -> dict[str, object]:
    """Fill both stores and search them; headline follow_vectors_per_s and x_sqlite_search_p50."""
    wanted = STORES if store is None else tuple(store.split(","))
    if not set(wanted) <= set(STORES):
        raise InputError(f"--store takes {','.join(STORES)}, got {store}")
    count = VECTORS_QUICK if quick else VECTORS
    vectors = _vectors(count, seed)
    queries = _vectors(QUERIES_QUICK if quick else QUERIES, seed + 1)
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        os.environ[WORK_VARIABLE] = str(folder / "work")
        places: dict[str, str | Path] = {"sqlite": folder / "corpus"}
        if "postgres" in wanted:
            places["postgres"] = ending.enter_context(databases(is_safe=True)).new()
        rows = {name: _filled(name, places[name], vectors) for name in wanted}
        engines = {name: _engine(places[name]) for name in wanted}
        for name, times in _search_times(engines, queries).items():
            rows[name]["search_p50_ms"] = 1e3 * median(times)
        for engine in engines.values():
            engine.close()  # type: ignore[attr-defined]
    headline = {
        f"follow_vectors_per_s_{name}": row["follow_vectors_per_s"] for name, row in rows.items()
    }
    if set(wanted) == set(STORES):
        server, file = rows["postgres"], rows["sqlite"]
        headline = {
            "follow_vectors_per_s": server["follow_vectors_per_s"],
            "x_sqlite_search_p50": server["search_p50_ms"] / file["search_p50_ms"],
        }
    settings = {"vectors": count, "dims": DIMS, "queries": len(queries), "stores": list(wanted)}
    return {"settings": settings, "rows": list(rows.values()), "headline": headline}


def _vectors(count: int, seed: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Return normalised vectors around common centres. Shape: [count, DIMS]."""
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, DIMS), np.float32)
    drawn = np.random.default_rng(seed)
    found = drawn.standard_normal((count, DIMS), np.float32)
    found += 2 * centres[drawn.integers(0, CLUSTERS, count)]
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _filled(name: str, place: str | Path, vectors: Any) -> dict[str, Any]:
    """Fill a corpus; return how long that and reading it took."""
    with CorpusStore.open(place, create=True) as store:
        store.set_embedder(EmbedderStamp("bench", DIMS, "float32"))
        begun = perf_counter()
        for documents in _batches(len(vectors)):
            store.documents.put_documents(documents)
        put_s = perf_counter() - begun
        begun, stored = perf_counter(), 0
        while waiting := store.documents.pending_chunks(BATCH):
            ids = [chunk.chunk_id for chunk in waiting]
            store.store_vectors(ids, vectors[stored : stored + len(ids)])
            stored += len(ids)
        store_s = perf_counter() - begun
        follow_s = min(_followed_s(store, len(vectors)) for _ in range(PASSES))
    return {
        "store": name,
        "put_chunks_per_s": len(vectors) / put_s,
        "store_vectors_per_s": len(vectors) / store_s,
        "follow_vectors_per_s": len(vectors) / follow_s,
    }


def _batches(count: int) -> Iterator[list[tuple[Document, list[TextChunk]]]]:
    for first in range(0, count, 20 * CHUNKS_EACH):
        yield [
            _document(start, min(CHUNKS_EACH, count - start))
            for start in range(first, min(first + 20 * CHUNKS_EACH, count), CHUNKS_EACH)
        ]


def _document(start: int, size: int) -> tuple[Document, list[TextChunk]]:
    chunks = [TextChunk(n, "", f"passage {start + n} of the bench") for n in range(size)]
    return Document(f"d{start}", "", "\n".join(one.text for one in chunks), ""), chunks


def _followed_s(store: CorpusStore, count: int) -> float:
    begun = perf_counter()
    found = sum(len(batch.chunk_ids) for batch in store.vectors(batch_rows=BATCH))
    assert found == count, f"{found} of {count} vectors were read"
    return perf_counter() - begun


def _engine(place: str | Path) -> SteppedEngine:
    refresh_index(place)
    with CorpusStore.open(place) as store:
        return build_engine("vector", 1, VectorSettings(store.place.work, corpus=store.place))


def _search_times(
    engines: dict[str, SteppedEngine],
    queries: Any,
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in engines}
    for is_timed in (False, True):
        for number, query in enumerate(queries):
            for name, engine in engines.items():
                begun = perf_counter()
                _search(engine, number + 1, query)
                if is_timed:
                    times[name].append(perf_counter() - begun)
    return times


def _search(engine: SteppedEngine, number: int, query: Any) -> None:
    payload = SearchPayload(np.ascontiguousarray(query.reshape(1, -1)), TOPK)
    task = Task(number, PrimitiveKind.SEARCHING, Identity(number, "bench"), payload)
    engine.apply(Admit(task, 0))
    while True:
        for event in engine.step(perf_counter(), math.inf).events:
            assert isinstance(event, Done), f"a search failed: {event}"
            return
