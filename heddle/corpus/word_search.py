"""Passages by their words: BM25 over SQLite's full-text index. (Robertson and Zaragoza 2009)"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from heddle.core.content_words import COMMON, WORD
from heddle.core.search_scope import SearchScope
from heddle.corpus.scope_query import live_in_scope

WORDS_MAX: Final = 32
STEPS_BETWEEN_LOOKS: Final = 20_000  # of SQLite's machine


def best_by_words(
    connection: sqlite3.Connection, text: str, limit: int, scope: SearchScope
) -> list[int]:
    """Return the live chunks in a scope that share words with a text, by BM25, the best first.

    Words are compared by their English stems; of equal scores the smaller id comes first.
    """
    wanted = match_expression(text)
    if not wanted:
        return []
    condition, values = live_in_scope(scope)
    rows = connection.execute(
        "SELECT chunk_id FROM words JOIN chunks ON chunk_id = words.rowid"
        " JOIN documents USING (version)"
        f" WHERE words MATCH ? AND same_as IS NULL AND {condition}"
        " ORDER BY bm25(words), chunk_id LIMIT ?",
        (wanted, *values, limit),
    )
    return [row[0] for row in rows]


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


def match_expression(text: str) -> str:
    """Return what FTS5 is asked for: any of the first words that are not common, "" for none."""
    found = dict.fromkeys(word.lower() for word in WORD.findall(text))
    rare = [word for word in found if word not in COMMON] or list(found)
    return " OR ".join(f'"{word}"' for word in rare[:WORDS_MAX])
