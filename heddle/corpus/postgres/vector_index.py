"""Searches by vectors inside PostgreSQL: pgvector's index over copies of the live vectors.

(docs/guide/postgresql.md#search-inside-postgresql)
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.core.search_scope import SearchScope
from heddle.corpus.place import CorpusPlace
from heddle.corpus.postgres import schema, vector_tables
from heddle.corpus.postgres.connection import run_statement
from heddle.corpus.postgres.pool import SCHEMA, ConnectionPool, Pg
from heddle.corpus.postgres.vector_format import VectorValue
from heddle.corpus.postgres.vector_rows import DUE, ROWS, copy_due
from heddle.corpus.postgres.vector_tables import VectorTypes
from heddle.corpus.rows import scope_query
from heddle.corpus.vector_index import DatabaseHits, OnRows, SearchEffort, VectorIndexKind

COMPARED: Final = "all in scope compared"
_SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_STATE: Final = (
    f"SELECT CAST(value AS BIGINT), EXISTS (SELECT 1 FROM {DUE}), {vector_tables.OID}"
    " FROM meta WHERE key = 'revision'"
)
# What a statement runs into where the index was made anew, or removed, under a running server.
_CHANGED: Final = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
    psycopg.errors.DatatypeMismatch,
)


class PgVectorIndex:
    """A VectorIndex by pgvector. (heddle.corpus.vector_index)

    Args:
        place: the corpus's.
        pool: lends connections of the role that sees every row.
        write: begins a write transaction, which copies what is due before it ends.
    """

    def __init__(
        self,
        place: CorpusPlace,
        pool: ConnectionPool,
        write: "Callable[[], AbstractContextManager[Any]]",
    ) -> None:
        self._place, self._pool, self._write = place, pool, write
        self._types: VectorTypes | None = None

    def kind(self) -> VectorIndexKind | None:
        """Return what the index is, or is to be; None = there is none."""
        with self._pool.connection() as connection:
            return vector_tables.kind_of(connection)

    def is_ready(self) -> bool:
        """Whether searches can use the index."""
        with self._pool.connection() as connection:
            return vector_tables.is_ready(connection)

    def check_offered(self) -> None:
        """Refuse a database without a pgvector that is new enough.

        Raises: ConfigError: the message says what is missing.
        """
        with self._pool.connection() as connection:
            vector_tables.check_extension(connection, self._place.name)

    def ready_kind(self) -> VectorIndexKind:
        """Return what the index is that searches can use.

        Raises: ConfigError: they can't; the message says what is missing, and the fix.
        """
        with self._pool.connection() as connection:
            return self._ready_types(connection).kind

    def refresh(self, kind: VectorIndexKind | None, on_rows: OnRows) -> None:
        """Make the index anew; None = finish or mend the one that there is.

        Raises: ConfigError: the database can't have it, or this user may not make it.
        """
        if kind is None and (self.kind() is None or self.is_ready()):
            with self._write():
                pass  # which copies what an older Heddle left
            return
        with self._owner() as connection:
            if kind is not None:
                vector_tables.make(connection, kind, self._place.name)
            self._copy(connection, on_rows)
            vector_tables.make_index(connection, self._place.name)
            self._copy(connection, on_rows)  # what came before writers saw the index

    def remove(self) -> None:
        """Remove the index, if there is one.

        Raises: ConfigError: this user may not.
        """
        with self._owner() as connection:
            vector_tables.remove(connection, self._place.name)

    def vectors_estimated(self) -> int:
        """Return how many vectors it has, by the database's statistics."""
        with self._pool.connection() as connection:
            row = run_statement(
                connection, "SELECT reltuples FROM pg_class WHERE oid = to_regclass(?)", (_ROWS,)
            ).fetchone()
            return 0 if row is None else max(0, int(row[0]))

    def problem(self) -> str:
        """Return how it differs from the corpus; "" = it doesn't, or there is none."""
        with self._pool.connection() as connection:
            if vector_tables.kind_of(connection) is None:
                return ""
            if not vector_tables.is_ready(connection):
                return "pgvector's index is unfinished"
            missing, foreign = run_statement(
                connection,
                "SELECT count(*) FILTER (WHERE copies.tenant IS NULL),"
                " count(*) FILTER (WHERE live.revision IS NULL)"
                " FROM (SELECT chunk_id, revision FROM vectors WHERE revision > 0) AS live"
                f" FULL JOIN {ROWS} AS copies USING (chunk_id)",
            ).fetchone()
        if missing or foreign:
            return f"pgvector's index lacks {missing} vectors of the corpus, and has {foreign} more"
        return ""

    def search(
        self, queries: NDArray[np.float32], topk: int, scope: SearchScope, effort: SearchEffort
    ) -> DatabaseHits:
        """Return the nearest live chunks in a scope: `topk` of them, or all there are.

        Where the index has found fewer, every vector in the scope is compared: pgvector gives up
        behind 20,000 that a filter leaves out.

        Raises: ConfigError: the index is gone, or is being made.
        """
        try:
            return self._whole_search(queries, topk, scope, effort)
        except _CHANGED:
            self._types = None  # it is looked at again, and refused where it isn't whole
            return self._whole_search(queries, topk, scope, effort)

    def _whole_search(
        self, queries: NDArray[np.float32], topk: int, scope: SearchScope, effort: SearchEffort
    ) -> DatabaseHits:
        found, is_behind = self._search(queries, topk, scope, effort)
        if is_behind:
            with self._write():
                pass  # which copies what an older Heddle left, or fails where the index isn't whole
            self.ready_kind()
            found, _ = self._search(queries, topk, scope, effort)
        if (found.labels < 0).any():
            found, _ = self._search(queries, topk, scope, None)
        return found

    def _search(
        self,
        queries: NDArray[np.float32],
        topk: int,
        scope: SearchScope,
        effort: SearchEffort | None,
    ) -> tuple[DatabaseHits, bool]:
        """Search in one snapshot, as a role that sees the rows of the scope's tenant alone.

        Args:
            queries: [n, d].
            topk: hits of each.
            scope: where they are.
            effort: how far it goes; None = every vector in the scope is compared.

        Returns: what was found, and whether live vectors were not copied yet.
        """
        with self._pool.connection() as connection:
            types = self._types = self._types or self._ready_types(connection)
            settings: Mapping[str, str] = {}
            how = COMPARED
            if effort is not None:
                settings, how = types.effort(effort, topk)
            statement, values = _statement(types, topk, scope, is_exact=effort is None)
            # One round trip: statements are sent before the first is answered.
            with connection.pipeline(), connection.transaction():
                run_statement(connection, _SNAPSHOT)
                state = run_statement(connection, _STATE)
                schema.become(connection, scope.tenant, settings)
                answers = [
                    run_statement(connection, statement, (_value(types, query), *values))
                    for query in queries
                ]
            revision, is_behind, oid = state.fetchone()
            rows = [answer.fetchall() for answer in answers]
        if oid != types.oid:  # it was made anew meanwhile
            self._types = None
            return self._search(queries, topk, scope, effort)
        labels = np.full((len(queries), topk), -1, np.int64)
        distances = np.full((len(queries), topk), np.inf, np.float32)
        for number, found in enumerate(rows):
            # Of equal distances the smaller id comes first, as in every lane.
            found.sort(key=lambda row: (row[1], row[0]))
            labels[number, : len(found)] = [row[0] for row in found]
            distances[number, : len(found)] = np.square([row[1] for row in found])
        how = f"pgvector {types.kind.value}: {how}"
        return DatabaseHits(labels, distances, revision, how), is_behind

    def _ready_types(self, connection: Pg) -> VectorTypes:
        """Return what searches need to know of the index.

        Raises: ConfigError: it isn't there, or isn't whole.
        """
        name = self._place.name
        vector_tables.check_extension(connection, name)
        kind = vector_tables.kind_of(connection)
        if kind is None or not vector_tables.is_ready(connection):
            state = "has no index" if kind is None else "has an unfinished index"
            raise ConfigError(
                f"{name}: the corpus {state} for searches inside PostgreSQL: as the owner of its"
                f" tables run: heddle index --into {name} --pgvector"
                f" {(kind or VectorIndexKind.HNSW).value}"
            )
        return vector_tables.types_of(connection)

    def _copy(self, connection: Pg, on_rows: OnRows) -> None:
        """Copy what is due, in transactions of their own: other writers wait for none long."""
        total = run_statement(connection, f"SELECT count(*) FROM {DUE}").fetchone()[0]
        done = 0
        while True:
            with self._write() as own:
                copied = copy_due(own)
            if not copied:
                return
            done += copied
            on_rows(min(done, total), total)

    @contextmanager
    def _owner(self) -> Iterator[Pg]:
        """Lend a connection of the URL's own user, who is to be the tables' owner."""
        pool = ConnectionPool(self._place.url, self._place.name, size=1)
        try:
            with pool.connection() as connection:
                yield connection
        finally:
            pool.close()


_ROWS: Final = f"{SCHEMA}.{ROWS}"


def _value(types: VectorTypes, query: NDArray[np.float32]) -> VectorValue:
    return VectorValue(query, is_half=types.kind.is_half)


def _statement(
    types: VectorTypes, topk: int, scope: SearchScope, *, is_exact: bool
) -> tuple[str, tuple[str, ...]]:
    """Return a search as SQL, with `?` for the query first, and its other values.

    Where it `is_exact` the OFFSET keeps pgvector's index out of it.
    """
    condition, values = "tenant IN ('', ?)", [scope.tenant]
    if scope.where:
        among, more = scope_query.live_in_scope(scope)
        condition += (
            " AND EXISTS (SELECT 1 FROM chunks JOIN documents USING (version)"
            f" WHERE chunks.chunk_id = {ROWS}.chunk_id AND {among})"
        )
        values += more
    near = f"vec {types.distance} CAST(? AS {types.column}) AS distance"
    order = f"ORDER BY distance LIMIT {topk}"  # a number here, so that the plan fits it
    if not is_exact:
        return f"SELECT chunk_id, {near} FROM {ROWS} WHERE {condition} {order}", tuple(values)
    among = f"(SELECT chunk_id, vec FROM {ROWS} WHERE {condition} OFFSET 0) AS seen"
    return f"SELECT chunk_id, {near} FROM {among} {order}", tuple(values)
