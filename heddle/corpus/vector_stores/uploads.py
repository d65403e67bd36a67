"""Files that clients have sent: whole, beside the documents, in the same file on the disk."""

from typing import Final

from heddle.core.errors import InputError
from heddle.corpus.rows.connection import Database
from heddle.corpus.rows.deletion import delete_documents
from heddle.corpus.vector_stores.document_names import FILE_PREFIX, document_keys, new_id
from heddle.corpus.vector_stores.paging import Listing, Page, PageRequest
from heddle.corpus.vector_stores.records import Upload

UPLOADS_MAX: Final = 10_000
_SELECT: Final = "SELECT number, id, tenant, name, purpose, bytes, created_s FROM uploads"


class Uploads:
    """The files of each tenant. Each method is one transaction.

    Args:
        database: the corpus's.

    Raises, from every method: StorageError when the disk refuses.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tenant: str, name: str, purpose: str, content: bytes, *, now_s: int) -> Upload:
        """Store a file.

        Raises:
            InputError: the tenant has too many.
        """
        file_id = new_id(FILE_PREFIX)
        with self._database.write() as connection:
            row = connection.execute("SELECT count(*) FROM uploads WHERE tenant = ?", (tenant,))
            if row.fetchone()[0] >= UPLOADS_MAX:
                raise InputError(f"file: there are {UPLOADS_MAX} files: delete some first")
            inserted = connection.execute(
                "INSERT INTO uploads (id, tenant, name, purpose, bytes, created_s)"
                " VALUES (?, ?, ?, ?, ?, ?) RETURNING number",
                (file_id, tenant, name, purpose, len(content), now_s),
            )
            number = int(inserted.fetchall()[0][0])
            connection.execute("INSERT INTO upload_contents VALUES (?, ?)", (number, content))
        return Upload(number, file_id, tenant, name, purpose, len(content), now_s)

    def listed(self, tenant: str, wanted: PageRequest, purpose: str | None = None) -> Page[Upload]:
        """Return a page of a tenant's files, perhaps those of one purpose.

        Raises:
            InputError: the page begins at a file that isn't there.
        """
        where, values = "tenant = ?", [tenant]
        if purpose is not None:
            where, values = f"{where} AND purpose = ?", [tenant, purpose]
        listing = Listing(_SELECT, "uploads", "id", where, tuple(values))
        with self._database.read() as connection:
            rows, has_more = listing.rows(connection, wanted)
        return Page(tuple(Upload(*row) for row in rows), has_more)

    def find(self, tenant: str, file_id: str) -> Upload | None:
        """Return a tenant's file."""
        with self._database.read() as connection:
            row = connection.execute(
                f"{_SELECT} WHERE tenant = ? AND id = ?", (tenant, file_id)
            ).fetchone()
        return None if row is None else Upload(*row)

    def content(self, tenant: str, file_id: str) -> bytes | None:
        """Return what a tenant's file holds."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT content FROM upload_contents JOIN uploads USING (number)"
                " WHERE tenant = ? AND id = ?",
                (tenant, file_id),
            ).fetchone()
        return None if row is None else bytes(row[0])

    def delete(self, tenant: str, file_id: str) -> bool:
        """Delete a tenant's file, and its documents in every store; return whether it was there."""
        with self._database.write() as connection:
            stores = connection.execute(
                "SELECT store_id FROM store_files WHERE file_id = ?", (file_id,)
            ).fetchall()
            cursor = connection.execute(
                "DELETE FROM uploads WHERE tenant = ? AND id = ?", (tenant, file_id)
            )
            if not cursor.rowcount:
                return False
            for (store_id,) in stores:
                delete_documents(connection, document_keys(connection, tenant, store_id, file_id))
        return True
