"""The rows under pgvector's index: a copy of each live vector, of a type that pgvector knows.

Triggers note which vectors have become live; the transaction that made them so copies them before
it ends. A search looks whether some are left, by an older Heddle, and copies them first.
"""

import logging
from typing import Final

from heddle.corpus.postgres.connection import PostgresConnection
from heddle.corpus.postgres.pool import SCHEMA
from heddle.corpus.postgres.vector_format import vector_bytes
from heddle.corpus.rows import meta_table, vector_table
from heddle.corpus.rows.connection import IDS, id_list
from heddle.corpus.vector_index import VectorIndexKind

ROWS: Final = "pgvectors"
DUE: Final = "pgvectors_due"
NEAR: Final = "pgvectors_near"
KIND_KEY: Final = "pgvector"
BATCH_ROWS: Final = 4096

log = logging.getLogger(__name__)


def has_index(connection: PostgresConnection) -> bool:
    """Whether the index is there, or is being made: writes copy their vectors."""
    found = connection.execute("SELECT to_regclass(?) IS NOT NULL", (f"{SCHEMA}.{NEAR}",))
    return bool(found.fetchone()[0])


def copy_all_due(connection: PostgresConnection) -> None:
    """Copy what has become live, inside a write transaction."""
    while copy_due(connection):
        pass


def copy_due(connection: PostgresConnection) -> int:
    """Copy some of what has become live, inside a write transaction; return how many it was.

    Vectors that are damaged are left out, and the log names them.
    """
    rows = connection.execute(f"SELECT chunk_id FROM {DUE} ORDER BY chunk_id LIMIT {BATCH_ROWS}")
    ids = [row[0] for row in rows.fetchall()]
    if not ids:
        return 0
    is_half = VectorIndexKind(meta_table.read(connection, KIND_KEY)).is_half
    dims = meta_table.dims(connection)
    found, damaged = vector_table.read_chunks(connection, ids, dims)
    if damaged:
        log.warning("left out of the index of pgvector: damaged vectors of chunks %s", damaged)
    tenants = connection.execute(
        "SELECT chunk_id, tenant FROM chunks JOIN documents USING (version)"
        f" WHERE chunk_id IN {IDS}",
        (id_list(ids),),
    )
    tenant_of = dict(tenants.fetchall())
    connection.execute(f"DELETE FROM {ROWS} WHERE chunk_id IN {IDS}", (id_list(ids),))
    connection.copy_rows(
        ROWS,
        "chunk_id, tenant, vec",
        (
            (chunk_id, tenant_of[chunk_id], vector_bytes(vector, is_half=is_half))
            for chunk_id, vector in zip(found.chunk_ids.tolist(), found.vectors, strict=True)
        ),
        kind=f"_{'half' if is_half else 'float'}_{dims}",
    )
    connection.execute(f"DELETE FROM {DUE} WHERE chunk_id IN {IDS}", (id_list(ids),))
    return len(ids)
