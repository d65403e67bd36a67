"""A scope as SQL: which live documents, and which of their chunks."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope
from heddle.corpus.rows.connection import Connection

# The same condition twice: as a set to begin with, and as a question to one document.
_AMONG: Final = "version IN (SELECT version FROM attributes WHERE key = ? AND value IN ({marks}))"
_HAS: Final = (
    "EXISTS (SELECT 1 FROM attributes WHERE attributes.version = documents.version AND key = ?"
    " AND value IN ({marks}))"
)


def chunk_ids(connection: Connection, scope: SearchScope) -> NDArray[np.int64]:
    """Return the live chunks in a scope, [n] int64, ascending."""
    condition, values = _conditions(scope, _AMONG)
    rows = connection.execute(
        "SELECT chunk_id FROM chunks WHERE same_as IS NULL AND version IN"
        f" (SELECT version FROM documents WHERE {condition}) ORDER BY chunk_id",
        values,
    )
    return np.fromiter((row[0] for row in rows), np.int64)


def has_any(connection: Connection, scope: SearchScope) -> bool:
    """Whether a live document is in a scope."""
    condition, values = _conditions(scope, _AMONG)
    row = connection.execute(f"SELECT 1 FROM documents WHERE {condition} LIMIT 1", values)
    return row.fetchone() is not None


def is_limited(connection: Connection, scope: SearchScope) -> bool:
    """Whether there may be live chunks outside a scope."""
    return bool(scope.where) or has_others(connection, scope.tenant)


def live_in_scope(scope: SearchScope) -> tuple[str, list[str]]:
    """Return the condition on a row of `documents` that is live and in a scope, and its values."""
    return _conditions(scope, _HAS)


def _conditions(scope: SearchScope, for_each_key: str) -> tuple[str, list[str]]:
    conditions, values = ["status = 'live'", "tenant IN ('', ?)"], [scope.tenant]
    for key, wanted in scope.where:
        conditions.append(for_each_key.format(marks=", ".join("?" * len(wanted))))
        values += (key, *wanted)
    return " AND ".join(conditions), values


def has_others(connection: Connection, tenant: str) -> bool:
    """Whether there are documents that this tenant may not see."""
    # Two ranges of the index on tenants: each ends at its first row.
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM documents WHERE tenant > '' AND tenant < ?)"
        " OR EXISTS (SELECT 1 FROM documents WHERE tenant > ?)",
        (tenant, tenant),
    ).fetchone()
    return bool(row[0])
