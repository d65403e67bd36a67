"""What indexing runs know: the files that documents came from, and how texts were cut."""

import json
from collections.abc import Iterable
from typing import Final

from heddle.corpus.records import SourceFile, outermost
from heddle.corpus.rows import document_table, meta_table
from heddle.corpus.rows.connection import Database
from heddle.corpus.rows.deletion import delete_documents

_OPEN_SIZE: Final = -1  # no file has it


class IndexingRuns:
    """The sources of a corpus's documents. Every method that writes is one short transaction.

    Args:
        database: the corpus's.

    Raises, from every method: StorageError when the database refuses.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin_scan(self) -> int:
        """Return the number of a new indexing run, above all before it."""
        with self._database.write() as connection:
            scan = meta_table.number(connection, "SELECT value FROM meta WHERE key = 'scan'") + 1
            meta_table.write(connection, "scan", scan)
            return scan

    @property
    def chunking(self) -> str | None:
        """How the last run has cut texts; None before the first."""
        with self._database.read() as connection:
            return meta_table.read(connection, "chunking")

    def set_chunking(self, stamp: str) -> None:
        """Say how texts are cut from now on; those that are here stay as they are."""
        with self._database.write() as connection:
            meta_table.write(connection, "chunking", stamp)

    def damaged_sources(self) -> set[str]:
        """Return the files that brought documents of which chunks are damaged; "" = none did.

        Reads every chunk and vector.
        """
        with self._database.read() as connection:
            return document_table.damaged_sources(connection)

    def source(self, name: str) -> SourceFile | None:
        """Return a file as it was when it was last taken in whole, or None.

        Its size is negative where a later run has opened it and not finished.
        """
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT name, sha256, size, mtime_ns, chunking FROM sources WHERE name = ?", (name,)
            ).fetchone()
        return None if row is None else SourceFile(*row)

    def source_names(self) -> tuple[str, ...]:
        """Return the files that documents come from, also those taken in only in part; sorted."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT source FROM documents UNION SELECT name FROM sources ORDER BY 1"
            ).fetchall()
        return tuple(row[0] for row in rows)

    def sources_without_documents(self) -> set[str]:
        """Return the files taken in whole of which no document is here: deleted, or no text."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT name FROM sources EXCEPT SELECT source FROM documents"
            ).fetchall()
        return {row[0] for row in rows}

    def open_sources(self, names: Iterable[str]) -> None:
        """Say that files are about to be read: until `finish_source` they count as changed.

        What is stored of one that is read only in part is no content that it had. Until they are
        read they have no claim on their documents' ids, which may have moved to another file.
        """
        with self._database.write() as connection:
            connection.executemany(
                "UPDATE sources SET size = ? WHERE name = ?", ((_OPEN_SIZE, n) for n in names)
            )

    def finish_source(self, source: SourceFile, scan: int) -> int:
        """Record that a file is in, whole, and delete documents that it no longer has.

        Returns: how many documents were deleted.
        """
        with self._database.write() as connection:
            gone = document_table.keys_of_source(connection, source.name, scan)
            delete_documents(connection, gone)
            connection.execute(
                "INSERT INTO sources (name, sha256, size, mtime_ns, chunking)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256,"
                " size = excluded.size, mtime_ns = excluded.mtime_ns,"
                " chunking = excluded.chunking",
                (source.name, source.sha256, source.size, source.mtime_ns, source.chunking),
            )
            return len(gone)

    def touch_source(self, source: SourceFile) -> None:
        """Record a file's new time, its content being the same."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE sources SET mtime_ns = ? WHERE name = ?", (source.mtime_ns, source.name)
            )

    def forget_sources(self, names: Iterable[str]) -> None:
        """Give up files' claim on their documents' ids, so that another file may bring them."""
        with self._database.write() as connection:
            connection.executemany("DELETE FROM sources WHERE name = ?", ((n,) for n in names))

    def delete_sources(self, names: Iterable[str]) -> int:
        """Delete the documents that still come from these files; return how many."""
        deleted = 0
        with self._database.write() as connection:
            scan_above_all = (
                meta_table.number(connection, "SELECT value FROM meta WHERE key = 'scan'") + 1
            )
            for name in names:
                gone = document_table.keys_of_source(connection, name, scan_above_all)
                delete_documents(connection, gone)
                connection.execute("DELETE FROM sources WHERE name = ?", (name,))
                deleted += len(gone)
        return deleted

    @property
    def follows_links(self) -> bool:
        """Whether links that lead out of the indexed paths are followed."""
        with self._database.read() as connection:
            return meta_table.read(connection, "follows_links") == "yes"

    def set_follows_links(self, follows: bool) -> None:
        """Say whether links that lead out of the indexed paths are followed from now on."""
        with self._database.write() as connection:
            meta_table.write(connection, "follows_links", "yes" if follows else "no")

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths that were indexed, sorted; of one inside another only the outer."""
        with self._database.read() as connection:
            return tuple(json.loads(meta_table.read(connection, "roots") or "[]"))

    def add_roots(self, paths: Iterable[str]) -> None:
        """Record paths that were indexed, for the next time."""
        new = set(paths)
        with self._database.write() as connection:
            known = set(json.loads(meta_table.read(connection, "roots") or "[]"))
            if not new <= known:
                outer = outermost(known | new)
                meta_table.write(connection, "roots", json.dumps(outer))
