"""Passages by their words: BM25 over SQLite's full-text index. (Robertson and Zaragoza 2009)"""

import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from heddle.core.search_scope import SearchScope
from heddle.corpus.rows import scope_query
from heddle.corpus.rows.connection import Connection
from heddle.corpus.rows.scope_query import live_in_scope
from heddle.corpus.rows.searched_words import searched_words

RARITY_MIN: Final = 1e-6  # of a word that more than half of the texts hold, as in FTS5
LOOKUP: Final = "SELECT rowid AS hit, bm25(words) * ? AS score FROM words WHERE words MATCH ?"
STEPS_BETWEEN_LOOKS: Final = 20_000  # of SQLite's machine


def best_by_words(connection: Connection, text: str, limit: int, scope: SearchScope) -> list[int]:
    """Return the live chunks in a scope that share words with a text, by BM25, the best first.

    Words are compared by their English stems; of equal scores the smaller id comes first. How rare
    a word is counts among the texts that the scope's tenant may see.
    """
    words = [f'"{word}"' for word in searched_words(text)]  # as FTS5 takes them
    if not words:
        return []
    if scope_query.has_others(connection, scope.tenant):
        return _by_own_statistics(connection, words, limit, scope)
    condition, values = live_in_scope(scope)
    rows = connection.execute(
        "SELECT chunk_id FROM words JOIN chunks ON chunk_id = words.rowid"
        " JOIN documents USING (version)"
        f" WHERE words MATCH ? AND same_as IS NULL AND {condition}"
        " ORDER BY bm25(words), chunk_id LIMIT ?",
        (" OR ".join(words), *values, limit),
    )
    return [row[0] for row in rows]


def _by_own_statistics(
    connection: Connection, words: Sequence[str], limit: int, scope: SearchScope
) -> list[int]:
    """Rank as if there were no documents of other tenants.

    SQLite weighs a word by how rare it is among all texts. Each word's scores are weighed anew, by
    how rare it is among those that the tenant may see. The texts' average length stays that of all.
    """
    seen, tenant = live_in_scope(SearchScope(scope.tenant))
    total, own = connection.execute(
        "SELECT count(*), count(CASE WHEN same_as IS NULL AND "
        f"{seen} THEN 1 END) FROM chunks JOIN documents USING (version)",
        tenant,
    ).fetchone()
    weighed: list[float | str] = []
    for word in words:
        holds, own_holds = connection.execute(
            f"SELECT count(*), count(CASE WHEN same_as IS NULL AND {seen} THEN 1 END)"
            " FROM words JOIN chunks ON chunk_id = words.rowid JOIN documents USING (version)"
            " WHERE words MATCH ?",
            (*tenant, word),
        ).fetchone()
        if own_holds:
            weighed += [_rarity(own, own_holds) / _rarity(total, holds), word]
    if not weighed:
        return []
    # FTS5 gives a score only where each word's hits are looked up by themselves.
    parts = [f"part{number}" for number in range(len(weighed) // 2)]
    lookups = ", ".join(f"{part} AS MATERIALIZED ({LOOKUP})" for part in parts)
    together = " UNION ALL ".join(f"SELECT * FROM {part}" for part in parts)
    condition, values = live_in_scope(scope)
    rows = connection.execute(
        f"WITH {lookups} SELECT chunk_id FROM"
        f" (SELECT hit, sum(score) AS whole FROM ({together}) GROUP BY hit)"
        " JOIN chunks ON chunk_id = hit JOIN documents USING (version)"
        f" WHERE same_as IS NULL AND {condition} ORDER BY whole, chunk_id LIMIT ?",
        (*weighed, *values, limit),
    )
    return [row[0] for row in rows]


def _rarity(texts: int, holding: int) -> float:
    """Return BM25's weight of a word that `holding` of the texts hold, as FTS5 computes it."""
    return max(RARITY_MIN, math.log((texts - holding + 0.5) / (holding + 0.5)))


@contextmanager
def stopped_when(
    connection: sqlite3.Connection, is_cancelled: Callable[[], bool]
) -> Iterator[None]:
    """Make the statements inside fail soon after `is_cancelled` has become true."""
    connection.set_progress_handler(is_cancelled, STEPS_BETWEEN_LOOKS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
