"""A connection to PostgreSQL as the tables of a corpus use it."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, LiteralString, cast

import psycopg

from heddle.corpus.postgres.pool import Pg
from heddle.corpus.postgres.word_terms import WordTerms
from heddle.corpus.rows.connection import IDS, Rows

COPIED_MIN: Final = 20  # rows; a table takes several round trips
_OWN_IDS: Final = "(SELECT jsonb_array_elements_text(?::jsonb)::bigint)"
# The types of columns that are copied in.
_TYPES: Final = {
    "checksum": "bytea",
    "chunk_id": "int8",
    "count": "int4",
    "digest": "bytea",
    "length": "int4",
    "page": "int4",
    "position": "int4",
    "revision": "int8",
    "start": "int4",
    "stop": "int4",
    "tokens": "int4",
    "vec": "bytea",  # in pgvector's own format, as which its bytes are read
    "vector": "bytea",
    "version": "int8",
}


class PostgresConnection:
    """Runs the statements of `heddle.corpus.rows` on PostgreSQL, and copies rows in.

    Args:
        connection: it is lent as long as this is used.
        terms: cuts texts into words.
    """

    def __init__(self, connection: Pg, terms: WordTerms) -> None:
        self._connection, self._terms = connection, terms

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""
        return run_statement(self._connection, statement, values)

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> None:
        """Run one statement for each row of values."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(statement), [tuple(row) for row in values])

    def insert_rows(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        """Copy many rows in; few are inserted one by one."""
        found = list(rows)
        if len(found) < COPIED_MIN:
            marks = ", ".join("?" * len(columns.split(",")))
            self.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", found)
            return
        self.copy_rows(table, columns, found)

    def copy_rows(
        self, table: str, columns: str, rows: Iterable[Sequence[Any]], kind: str = ""
    ) -> None:
        """Copy rows in, in the binary format.

        PostgreSQL copies into no table with row-level security, so rows are copied into a
        temporary one, which the log doesn't hold, and go from there in one statement.

        Args:
            table: where to.
            columns: their names with commas between.
            rows: values of these.
            kind: a suffix for rows whose columns have other types than the table's.
        """
        incoming = f"incoming_{table}{kind}"
        self.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS {incoming} ON COMMIT DELETE ROWS"
            f" AS SELECT {columns} FROM {table} WITH NO DATA"
        )
        statement = f"COPY {incoming} ({columns}) FROM STDIN (FORMAT BINARY)"
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_TYPES.get(name.strip(), "text") for name in columns.split(",")])
            for row in rows:
                copy.write_row(row)
        self.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {incoming}")
        self.execute(f"DELETE FROM {incoming}")  # another batch of this transaction may follow

    def index_words(self, version: int, texts: Iterable[tuple[int, str, str]]) -> None:
        """Store how often each word stands in each of a version's chunks, and their lengths."""
        text_of = {position: (title, text) for position, title, text in texts}
        rows = self.execute(
            "SELECT chunk_id, position FROM chunks WHERE version = ? ORDER BY chunk_id", (version,)
        ).fetchall()
        counts = self._terms.counts([text_of[position] for _, position in rows])
        found = [(chunk_id, one) for (chunk_id, _), one in zip(rows, counts, strict=True)]
        self.insert_rows(
            "chunk_lengths",
            "chunk_id, tokens",
            ((chunk_id, one.tokens) for chunk_id, one in found),
        )
        self.insert_rows(
            "word_hits",
            "word, chunk_id, count, length",
            (
                (word, chunk_id, count, one.tokens)
                for chunk_id, one in found
                for word, count in one.words.items()
            ),
        )

    def rebuild_words(self) -> None:
        """Do nothing: a chunk's words go with its id, not with its text."""


def run_statement(connection: Pg, statement: str, values: Sequence[Any] = ()) -> Rows:
    """Run one statement with `?` for each value, and have its rows in the binary format."""
    # Without values psycopg reads no placeholders, and a percent sign is one character.
    cursor = connection.cursor(binary=True)
    return cast("Rows", cursor.execute(_translated(statement), tuple(values)))


@lru_cache(1000)
def _translated(statement: str) -> LiteralString:
    """Return a statement as psycopg takes it."""
    return statement.replace(IDS, _OWN_IDS).replace("%", "%%").replace("?", "%s")


def server_version(connection: psycopg.Connection[Any]) -> int:
    """Return the server's version, such as 180004."""
    return connection.info.server_version
