"""The tables of pgvector's index, made by their owner where it is asked for.

`pgvectors` has a copy of each live vector with the tenant it belongs to, so that one index serves
all tenants and row-level security needs no join. Triggers note in `pgvectors_due` which vectors
have become live.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg

from heddle.core.errors import ConfigError
from heddle.corpus.postgres import schema
from heddle.corpus.postgres.connection import run_statement
from heddle.corpus.postgres.pool import SCHEMA, Pg
from heddle.corpus.postgres.vector_rows import DUE, KIND_KEY, NEAR, ROWS
from heddle.corpus.vector_index import SearchEffort, VectorIndexKind

VERSION_MIN: Final = (0, 8)  # before it a filtered search ends short
HNSW: Final = "m = 16, ef_construction = 200"
CANDIDATES: Final = 100
CANDIDATES_MAX: Final = 1000  # pgvector's own bound
LISTS_PART: Final = 4  # one list in this many is scanned
DIMS_MAX: Final = 2000  # of pgvector's indexes; of float16 twice as many
# Of a search that a filter leaves short; for lists pgvector has no stricter order.
_HNSW_ORDER, _LISTS_ORDER = "strict_order", "relaxed_order"
OWNERS: Final = "heddle index --into URL --pgvector KIND"
OID: Final = f"CAST(coalesce(CAST(to_regclass('{SCHEMA}.{NEAR}') AS oid), 0) AS BIGINT)"
_NOTE: Final = "note_live_vectors"
_TRIGGERS: Final = {"live_vectors_added": "INSERT", "live_vectors_changed": "UPDATE"}


@dataclass(frozen=True, slots=True)
class VectorTypes:
    """What statements need to know of the index.

    Args:
        kind: of it.
        oid: its number in the database; another index has another.
        schema: where pgvector's types and operators are.
        lists: inverted lists; 0 = it is a graph.
    """

    kind: VectorIndexKind
    oid: int
    schema: str
    lists: int

    @property
    def column(self) -> str:
        """The type of a vector."""
        return f"{self.schema}.{'halfvec' if self.kind.is_half else 'vector'}"

    @property
    def distance(self) -> str:
        """The operator that gives the Euclidean distance of two vectors."""
        return f"OPERATOR({self.schema}.<->)"

    def effort(self, wanted: SearchEffort, topk: int) -> tuple[Mapping[str, str], str]:
        """Return pgvector's settings for a search, and how far it goes, in words."""
        if self.kind.is_graph:
            kept = min(max(wanted.candidates or CANDIDATES, topk), CANDIDATES_MAX)
            settings = {"hnsw.ef_search": str(kept), "hnsw.iterative_scan": _HNSW_ORDER}
            return settings, f"ef_search {kept}"
        scanned = min(wanted.lists or math.ceil(self.lists / LISTS_PART), self.lists)
        settings = {"ivfflat.probes": str(scanned), "ivfflat.iterative_scan": _LISTS_ORDER}
        return settings, f"{scanned} of {self.lists} lists"


def kind_of(connection: Pg) -> VectorIndexKind | None:
    """Return what the index is, or is to be; None = there is none."""
    row = run_statement(
        connection, f"SELECT value FROM {SCHEMA}.meta WHERE key = ?", (KIND_KEY,)
    ).fetchone()
    return None if row is None else VectorIndexKind(row[0])


def types_of(connection: Pg) -> VectorTypes:
    """Return what statements need to know of an index that is there."""
    kind, oid, place, options = run_statement(
        connection,
        f"SELECT (SELECT value FROM {SCHEMA}.meta WHERE key = ?),"
        f" {OID},"
        " (SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON"
        "  pg_namespace.oid = extnamespace WHERE extname = 'vector'),"
        " (SELECT reloptions FROM pg_class WHERE oid = to_regclass(?))",
        (KIND_KEY, f"{SCHEMA}.{NEAR}"),
    ).fetchone()
    found = dict(option.split("=") for option in options or ())
    return VectorTypes(VectorIndexKind(kind), oid, place, int(found.get("lists", 0)))


def is_ready(connection: Pg) -> bool:
    """Whether searches can use the index: it is there, and whole."""
    row = run_statement(
        connection,
        "SELECT coalesce(bool_and(indisvalid), false) FROM pg_index"
        " WHERE indexrelid = to_regclass(?)",
        (f"{SCHEMA}.{NEAR}",),
    ).fetchone()
    return bool(row[0])


def check_extension(connection: Pg, name: str) -> bool:
    """Refuse a database without a pgvector that is new enough; return whether it is set up.

    Raises: ConfigError: the message names the fix.
    """
    installed, offered = run_statement(
        connection,
        "SELECT max(installed_version), max(default_version) FROM pg_available_extensions"
        " WHERE name = 'vector'",
    ).fetchone()
    if installed is None and offered is None:
        raise ConfigError(
            f"{name}: this PostgreSQL has no pgvector, and searches inside it need that: install it"
            " on the database's server (such as Debian's postgresql-18-pgvector), or search in"
            " lanes (--search-in lanes)"
        )
    if _version(installed or offered) < VERSION_MIN:
        raise ConfigError(
            f"{name}: pgvector {installed or offered} is too old, need"
            f" {'.'.join(map(str, VERSION_MIN))}: update it on the database's server, and have a"
            " superuser run ALTER EXTENSION vector UPDATE"
        )
    return installed is not None


def make(connection: Pg, kind: VectorIndexKind, name: str) -> None:
    """Make empty tables for an index, in the place of those that are there, as their owner.

    Every live vector is noted as due. The index itself is made over the rows, when these are there.

    Raises: ConfigError: the database can't have it, or this user may not make it.
    """
    dims = _checked_dims(connection, kind, name)
    with _as_owner(name, "CREATE EXTENSION vector"):
        if not check_extension(connection, name):
            run_statement(connection, "CREATE EXTENSION vector WITH SCHEMA public")
    with _as_owner(name, OWNERS), connection.transaction():
        schema.lock_writes(connection)
        _drop(connection)
        place = run_statement(
            connection,
            "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON"
            " pg_namespace.oid = extnamespace WHERE extname = 'vector'",
        ).fetchone()[0]
        column = VectorTypes(kind, 0, place, 0).column
        for statement in _statements(f"{column}({dims})"):
            run_statement(connection, statement)
        run_statement(
            connection, "INSERT INTO meta (key, value) VALUES (?, ?)", (KIND_KEY, kind.value)
        )


def make_index(connection: Pg, name: str) -> None:
    """Make the index over the rows that are there, while others write; as their owner.

    Raises: ConfigError: this user may not.
    """
    types = types_of(connection)
    rows = run_statement(connection, f"SELECT count(*) FROM {ROWS}").fetchone()[0]
    options = HNSW if types.kind.is_graph else f"lists = {max(1, round(math.sqrt(rows)))}"
    method = "hnsw" if types.kind.is_graph else "ivfflat"
    operators = f"{types.column}_l2_ops"
    with _as_owner(name, OWNERS):
        run_statement(connection, "SET lock_timeout TO 0")  # it waits for transactions of others
        run_statement(connection, f"DROP INDEX IF EXISTS {NEAR}")
        run_statement(
            connection,
            f"CREATE INDEX CONCURRENTLY {NEAR} ON {ROWS} USING {method} (vec {operators})"
            f" WITH ({options})",
        )
        run_statement(connection, f"ANALYZE {ROWS}")


def remove(connection: Pg, name: str) -> None:
    """Remove the index with its rows, as their owner.

    Raises: ConfigError: this user may not.
    """
    with _as_owner(name, OWNERS), connection.transaction():
        schema.lock_writes(connection)
        _drop(connection)


def _drop(connection: Pg) -> None:
    for trigger in _TRIGGERS:
        run_statement(connection, f"DROP TRIGGER IF EXISTS {trigger} ON vectors")
    run_statement(connection, f"DROP FUNCTION IF EXISTS {_NOTE}")
    run_statement(connection, f"DROP TABLE IF EXISTS {ROWS}, {DUE}")
    run_statement(connection, "DELETE FROM meta WHERE key = ?", (KIND_KEY,))


def _statements(column: str) -> Iterator[str]:
    """Yield what makes the tables, empty, with all live vectors due."""
    vector = "BIGINT PRIMARY KEY REFERENCES vectors (chunk_id) ON DELETE CASCADE"
    tenant = 'TEXT COLLATE "C" NOT NULL'
    yield f"CREATE TABLE {ROWS} (chunk_id {vector}, tenant {tenant}, vec {column} NOT NULL)"
    yield f"CREATE INDEX {ROWS}_tenant ON {ROWS} (tenant)"
    yield f"CREATE TABLE {DUE} (chunk_id {vector})"
    yield f"""CREATE FUNCTION {_NOTE}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO {DUE} SELECT chunk_id FROM changed WHERE revision > 0 ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$"""
    for trigger, event in _TRIGGERS.items():
        yield f"""CREATE TRIGGER {trigger} AFTER {event} ON vectors
            REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION {_NOTE}()"""
    yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON {ROWS}, {DUE} TO {schema.LOG_ROLE}"
    yield f"GRANT SELECT ON {ROWS} TO {schema.TENANT_ROLE}"
    yield from schema.row_security(ROWS, schema.MINE)
    yield f"INSERT INTO {DUE} SELECT chunk_id FROM vectors WHERE revision > 0"


def _checked_dims(connection: Pg, kind: VectorIndexKind, name: str) -> int:
    """Return the length of a vector.

    Raises: ConfigError: there is no vector, or it is too long for this kind of index.
    """
    row = run_statement(
        connection, f"SELECT value FROM {SCHEMA}.meta WHERE key = 'embedder_dims'"
    ).fetchone()
    if row is None:
        raise ConfigError(f"{name}: there are no vectors yet: index documents first")
    dims, most = int(row[0]), 2 * DIMS_MAX if kind.is_half else DIMS_MAX
    if dims > most:
        fix = "search in lanes (--search-in lanes)"
        if dims <= 2 * DIMS_MAX:
            fix = f"name {kind.value}-half"
        raise ConfigError(
            f"{name}: its vectors have {dims} dimensions, and pgvector's {kind.value} takes at most"
            f" {most}: {fix}"
        )
    return dims


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


@contextmanager
def _as_owner(name: str, what: str) -> Iterator[None]:
    """Turn the refusal of a user who may not into a sentence with the fix.

    Raises: ConfigError: this user may not.
    """
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        said = str(error).splitlines()[0]
        raise ConfigError(f"{name}: {said}: have a superuser run {what} there") from None
