"""Vector stores: named sets of files. What a search finds of them are documents of the corpus."""

import json
from collections.abc import Mapping
from typing import Any, Final

from heddle.core.errors import InputError
from heddle.corpus.rows.connection import Connection, Database
from heddle.corpus.rows.deletion import delete_documents
from heddle.corpus.vector_stores.counts import counts_of_store
from heddle.corpus.vector_stores.document_names import STORE_PREFIX, document_keys, new_id
from heddle.corpus.vector_stores.paging import Listing, Page, PageRequest
from heddle.corpus.vector_stores.records import VectorStore

STORES_MAX: Final = 1_000
_SELECT: Final = (
    "SELECT number, id, tenant, name, metadata, created_s, changed_s,"
    " (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM store_files"
    "  WHERE store_id = vector_stores.id)"
    " FROM vector_stores"
)


class VectorStores:
    """The vector stores of each tenant. Each method is one transaction.

    Args:
        database: the corpus's.

    Raises, from every method: StorageError when the disk refuses.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, tenant: str, name: str, metadata: Mapping[str, str], *, now_s: int
    ) -> VectorStore:
        """Make a store without files.

        Raises:
            InputError: the tenant has too many.
        """
        store_id = new_id(STORE_PREFIX)
        with self._database.write() as connection:
            row = connection.execute(
                "SELECT count(*) FROM vector_stores WHERE tenant = ?", (tenant,)
            ).fetchone()
            if row[0] >= STORES_MAX:
                raise InputError(f"there are {STORES_MAX} vector stores: delete some first")
            connection.execute(
                "INSERT INTO vector_stores (id, tenant, name, metadata, created_s, changed_s)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (store_id, tenant, name, json.dumps(dict(metadata)), now_s, now_s),
            )
            found = _find(connection, tenant, store_id)
        assert found is not None, "it was made in this transaction"
        return found

    def listed(self, tenant: str, wanted: PageRequest) -> Page[VectorStore]:
        """Return a page of a tenant's stores.

        Raises:
            InputError: the page begins at a store that isn't there.
        """
        listing = Listing(_SELECT, "vector_stores", "id", "tenant = ?", (tenant,))
        with self._database.read() as connection:
            rows, has_more = listing.rows(connection, wanted)
            return Page(tuple(_store(connection, row) for row in rows), has_more)

    def find(self, tenant: str, store_id: str) -> VectorStore | None:
        """Return a tenant's store."""
        with self._database.read() as connection:
            return _find(connection, tenant, store_id)

    def change(
        self,
        tenant: str,
        store_id: str,
        *,
        name: str | None,
        metadata: Mapping[str, str] | None,
        now_s: int,
    ) -> VectorStore | None:
        """Give a store another name or other metadata; None = as it is. Return it as it is then."""
        written = None if metadata is None else json.dumps(dict(metadata))
        with self._database.write() as connection:
            connection.execute(
                "UPDATE vector_stores SET name = coalesce(?, name),"
                " metadata = coalesce(?, metadata), changed_s = ? WHERE tenant = ? AND id = ?",
                (name, written, now_s, tenant, store_id),
            )
            return _find(connection, tenant, store_id)

    def delete(self, tenant: str, store_id: str) -> bool:
        """Delete a store and the documents in it; its files stay. Return whether it was there."""
        with self._database.write() as connection:
            cursor = connection.execute(
                "DELETE FROM vector_stores WHERE tenant = ? AND id = ?", (tenant, store_id)
            )
            if not cursor.rowcount:
                return False
            delete_documents(connection, document_keys(connection, tenant, store_id))
        return True


def _find(connection: Connection, tenant: str, store_id: str) -> VectorStore | None:
    row = connection.execute(
        f"{_SELECT} WHERE tenant = ? AND id = ?", (tenant, store_id)
    ).fetchone()
    return None if row is None else _store(connection, row)


def _store(connection: Connection, row: tuple[Any, ...]) -> VectorStore:
    number, store_id, tenant, name, metadata, created_s, changed_s, size = row
    counts = counts_of_store(connection, store_id)
    return VectorStore(
        number, store_id, tenant, name, json.loads(metadata), created_s, changed_s, size, counts
    )
