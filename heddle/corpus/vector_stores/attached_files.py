"""Files in vector stores, one by one and in batches."""

import json
from collections.abc import Mapping
from typing import Any, Final

from heddle.core.errors import Busy, InputError
from heddle.corpus.rows.connection import Connection, Database
from heddle.corpus.rows.deletion import delete_documents
from heddle.corpus.vector_stores.counts import counts_of_batch
from heddle.corpus.vector_stores.document_names import document_keys, new_id, searchable_chunks
from heddle.corpus.vector_stores.paging import Listing, Page, PageRequest
from heddle.corpus.vector_stores.records import (
    AttachedFile,
    Attributes,
    FileBatch,
    FileState,
)

FILES_MAX: Final = 10_000  # in a store: a search's filter names them
WAITING_MAX: Final = 10_000
WAIT_S: Final = 30.0
SELECT: Final = (
    "SELECT store_files.number, store_id, file_id, tenant, name, store_files.created_s, attributes,"
    " state, failure_kind, failure, attempts, store_files.bytes"
    " FROM store_files JOIN uploads ON uploads.id = file_id"
)


class AttachedFiles:
    """The files in the vector stores of each tenant. Each method is one transaction.

    Args:
        database: the corpus's.

    Raises, from every method: StorageError when the disk refuses.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def attach(
        self, tenant: str, store_id: str, files: Mapping[str, Attributes], *, now_s: int
    ) -> FileBatch:
        """Put files into a store, to be indexed: all of them or none.

        One that is there already is indexed anew, which is quick where its text is the same.

        Args:
            tenant: whose store and files they are.
            store_id: the store.
            files: the files' ids, each with its attributes.
            now_s: the time [Unix s].

        Raises:
            InputError: the store or a file isn't there, or the store would hold too many.
            Busy: too many files wait to be indexed.
        """
        batch_id = new_id("vsfb_")
        with self._database.write() as connection:
            _check_waiting(connection, len(files))
            _check_store(connection, tenant, store_id)
            connection.execute(
                "INSERT INTO file_batches (id, store_id, created_s) VALUES (?, ?, ?)",
                (batch_id, store_id, now_s),
            )
            for file_id, attributes in files.items():
                _attach(connection, tenant, store_id, file_id, attributes, now_s)
                connection.execute(
                    "INSERT INTO batch_files SELECT ?, number FROM store_files"
                    " WHERE store_id = ? AND file_id = ?",
                    (batch_id, store_id, file_id),
                )
            _check_size(connection, store_id)
            connection.execute(
                "UPDATE vector_stores SET changed_s = ? WHERE id = ?", (now_s, store_id)
            )
            counts = counts_of_batch(connection, batch_id)
        return FileBatch(batch_id, store_id, now_s, False, counts)

    def listed(
        self,
        tenant: str,
        store_id: str,
        wanted: PageRequest,
        *,
        state: FileState | None = None,
        batch_id: str | None = None,
    ) -> Page[AttachedFile]:
        """Return a page of a store's files, perhaps those in one state, or of one batch.

        Raises:
            InputError: the page begins at a file that isn't in the list.
        """
        where, values = "tenant = ? AND store_id = ?", [tenant, store_id]
        if state is not None:
            where += " AND state = ?"
            values.append(state.value)
        if batch_id is not None:
            where += (
                " AND store_files.number IN (SELECT number FROM batch_files WHERE batch_id = ?)"
            )
            values.append(batch_id)
        listing = Listing(SELECT, "store_files", "file_id", where, tuple(values))
        with self._database.read() as connection:
            rows, has_more = listing.rows(connection, wanted)
        return Page(tuple(attached_file(row) for row in rows), has_more)

    def all_of(self, tenant: str, store_id: str) -> tuple[AttachedFile, ...]:
        """Return every file of a store."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"{SELECT} WHERE tenant = ? AND store_id = ? ORDER BY store_files.number",
                (tenant, store_id),
            ).fetchall()
        return tuple(attached_file(row) for row in rows)

    def find(self, tenant: str, store_id: str, file_id: str) -> AttachedFile | None:
        """Return a file in a store."""
        with self._database.read() as connection:
            row = connection.execute(
                f"{SELECT} WHERE tenant = ? AND store_id = ? AND file_id = ?",
                (tenant, store_id, file_id),
            ).fetchone()
        return None if row is None else attached_file(row)

    def chunk_ids(self, tenant: str, store_id: str, file_id: str) -> tuple[int, ...]:
        """Return the searchable chunks of a file in a store, in the order of the file."""
        with self._database.read() as connection:
            return searchable_chunks(connection, tenant, store_id, file_id)

    def detach(self, tenant: str, store_id: str, file_id: str) -> bool:
        """Take a file out of a store, with its documents; return whether it was in it."""
        with self._database.write() as connection:
            cursor = connection.execute(
                "DELETE FROM store_files WHERE store_id = ? AND file_id = ?"
                " AND EXISTS (SELECT 1 FROM vector_stores WHERE tenant = ? AND id = ?)",
                (store_id, file_id, tenant, store_id),
            )
            if not cursor.rowcount:
                return False
            delete_documents(connection, document_keys(connection, tenant, store_id, file_id))
        return True

    def batch(self, tenant: str, store_id: str, batch_id: str) -> FileBatch | None:
        """Return a batch as it is now."""
        with self._database.read() as connection:
            return _batch(connection, tenant, store_id, batch_id)

    def cancel(self, tenant: str, store_id: str, batch_id: str) -> FileBatch | None:
        """Index those files of a batch no more that are not done; return the batch.

        One that was complete before the batch put it in again is complete as before: its text is
        the same.
        """
        with self._database.write() as connection:
            if _batch(connection, tenant, store_id, batch_id) is None:
                return None
            connection.execute("UPDATE file_batches SET is_cancelled = 1 WHERE id = ?", (batch_id,))
            connection.execute(
                "UPDATE store_files"
                " SET state = CASE WHEN bytes > 0 THEN 'completed' ELSE 'cancelled' END"
                " WHERE state = 'in_progress'"
                " AND number IN (SELECT number FROM batch_files WHERE batch_id = ?)",
                (batch_id,),
            )
            return _batch(connection, tenant, store_id, batch_id)


def attached_file(row: tuple[Any, ...]) -> AttachedFile:
    """Return the record of a row of `SELECT`."""
    number, store_id, file_id, tenant, name, created_s, attributes, state, *rest = row
    return AttachedFile(
        number,
        store_id,
        file_id,
        tenant,
        name,
        created_s,
        json.loads(attributes),
        FileState(state),
        *rest,
    )


def _attach(
    connection: Connection,
    tenant: str,
    store_id: str,
    file_id: str,
    attributes: Attributes,
    now_s: int,
) -> None:
    known = connection.execute(
        "SELECT 1 FROM uploads WHERE tenant = ? AND id = ?", (tenant, file_id)
    )
    if known.fetchone() is None:
        raise InputError(f"file_ids: no file {file_id!r:.60} is there: send it to /v1/files first")
    connection.execute(
        "INSERT INTO store_files (store_id, file_id, created_s, attributes, state)"
        " VALUES (?, ?, ?, ?, 'in_progress') ON CONFLICT (store_id, file_id) DO UPDATE SET"
        " attributes = excluded.attributes, state = 'in_progress', failure_kind = '', failure = '',"
        " attempts = 0",
        (store_id, file_id, now_s, json.dumps(dict(attributes))),
    )


def _check_waiting(connection: Connection, more: int) -> None:
    row = connection.execute("SELECT count(*) FROM store_files WHERE state = 'in_progress'")
    waiting = row.fetchone()[0]
    if waiting + more > WAITING_MAX:
        raise Busy(f"{waiting} files wait to be indexed, and {WAITING_MAX} may", wait_s=WAIT_S)


def _check_store(connection: Connection, tenant: str, store_id: str) -> None:
    known = connection.execute(
        "SELECT 1 FROM vector_stores WHERE tenant = ? AND id = ?", (tenant, store_id)
    )
    if known.fetchone() is None:
        raise InputError(f"vector_store_id: no vector store {store_id!r:.60} is there")


def _check_size(connection: Connection, store_id: str) -> None:
    row = connection.execute("SELECT count(*) FROM store_files WHERE store_id = ?", (store_id,))
    if row.fetchone()[0] > FILES_MAX:
        raise InputError(f"file_ids: a vector store holds at most {FILES_MAX} files: make another")


def _batch(connection: Connection, tenant: str, store_id: str, batch_id: str) -> FileBatch | None:
    row = connection.execute(
        "SELECT file_batches.created_s, is_cancelled FROM file_batches"
        " JOIN vector_stores ON vector_stores.id = store_id"
        " WHERE tenant = ? AND store_id = ? AND file_batches.id = ?",
        (tenant, store_id, batch_id),
    ).fetchone()
    if row is None:
        return None
    return FileBatch(
        batch_id, store_id, row[0], bool(row[1]), counts_of_batch(connection, batch_id)
    )
