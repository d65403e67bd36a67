"""Passages by their words: Heddle's BM25 over counted words. (Robertson and Zaragoza 2009)

Constants and statistics are those of SQLite's FTS5, so that a question finds the same passages in
the same order in both stores.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from heddle.core.errors import Cancelled
from heddle.core.search_scope import SearchScope
from heddle.corpus.rows.connection import Connection
from heddle.corpus.rows.scope_query import live_in_scope

RARITY_MIN: Final = 1e-6  # of a word that more than half of the texts hold
K1, B = 1.2, 0.75
PLACES: Final = 9  # of a score: equal texts have equal scores in any order of the sum


def best_by_words(
    connection: Connection,
    terms: Sequence[str],
    limit: int,
    scope: SearchScope,
    *,
    has_others: bool,
    is_cancelled: Callable[[], bool],
) -> list[int]:
    """Return the live chunks in a scope that hold one of the terms, by BM25, the best first.

    Of equal scores the smaller id comes first.

    Args:
        connection: inside a transaction of the scope's tenant.
        terms: as `WordTerms` cuts them.
        limit: how many chunks at most.
        scope: where they are.
        has_others: whether there are documents that the tenant may not see; how rare a word is
            then counts among those that it may.
        is_cancelled: looked at between two statements.
    """
    wanted = sorted(set(terms) - {""})
    count = _own_counts if has_others else _all_counts
    texts, holding = count(connection, wanted, scope)
    if is_cancelled():
        raise Cancelled("the search by words is no longer wanted")
    weights = [(word, _rarity(texts, held)) for word, held in holding.items() if held]
    if not weights:
        return []
    tokens, chunks = connection.execute("SELECT tokens, chunks FROM word_totals").fetchone()
    average = max(1.0, tokens / max(1, chunks))
    condition, values = live_in_scope(scope)
    marks = ", ".join(["(CAST(? AS TEXT), CAST(? AS DOUBLE PRECISION))"] * len(weights))
    rows = connection.execute(
        f"WITH weights (word, weight) AS (VALUES {marks}), scores AS ("
        "  SELECT chunk_id, sum(weight * count * ? / (count + ? * (? + ? * length / ?))) AS score"
        '  FROM word_hits JOIN weights ON word_hits.word = weights.word COLLATE "C"'
        "  GROUP BY chunk_id)"
        " SELECT chunk_id FROM scores JOIN chunks USING (chunk_id) JOIN documents USING (version)"
        f" WHERE same_as IS NULL AND {condition}"
        f" ORDER BY round(CAST(score AS NUMERIC), {PLACES}) DESC, chunk_id LIMIT ?",
        (
            *(part for weight in weights for part in weight),
            *(K1 + 1, K1, 1 - B, B, average),
            *values,
            limit,
        ),
    )
    return [row[0] for row in rows]


def _all_counts(
    connection: Connection, words: Sequence[str], scope: SearchScope
) -> tuple[int, dict[str, int]]:
    """Return how many texts there are, and how many of them hold each word."""
    texts = connection.execute("SELECT chunks FROM word_totals").fetchone()[0]
    held = {
        word: connection.execute(
            "SELECT count(*) FROM word_hits WHERE word = ?", (word,)
        ).fetchone()[0]
        for word in words
    }
    return texts, held


def _own_counts(
    connection: Connection, words: Sequence[str], scope: SearchScope
) -> tuple[int, dict[str, int]]:
    """Return both counts among the texts that the tenant's searches find."""
    seen, tenant = live_in_scope(SearchScope(scope.tenant))
    among = f"JOIN documents USING (version) WHERE same_as IS NULL AND {seen}"
    texts = connection.execute(f"SELECT count(*) FROM chunks {among}", tenant).fetchone()[0]
    held = {
        word: connection.execute(
            f"SELECT count(*) FROM word_hits JOIN chunks USING (chunk_id) {among} AND word = ?",
            (*tenant, word),
        ).fetchone()[0]
        for word in words
    }
    return texts, held


def _rarity(texts: int, holding: int) -> float:
    """Return BM25's weight of a word that `holding` of the texts hold, as FTS5 computes it."""
    return max(RARITY_MIN, math.log((texts - holding + 0.5) / (holding + 0.5)))
