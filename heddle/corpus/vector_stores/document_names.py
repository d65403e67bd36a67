"""The ids that documents of a vector store have in the corpus: STORE/FILE/NUMBER."""

import re
from secrets import token_hex
from typing import Final, NamedTuple

from heddle.corpus.document import DocumentKey
from heddle.corpus.rows.connection import Connection

STORE_KEY: Final = "vector_store"
FILE_KEY: Final = "vector_store_file"
"""Under these keys a document's metadata names its store and its file."""
ID_BYTES: Final = 12
STORE_PREFIX: Final = "vs_"
FILE_PREFIX: Final = "file-"
_PLACE: Final = re.compile(rf"({STORE_PREFIX}[^/]+)/({FILE_PREFIX}[^/]+)/\d+")
_AFTER_SLASH: Final = chr(ord("/") + 1)


class StoredAt(NamedTuple):
    """Where a document of a vector store belongs."""

    store_id: str
    file_id: str


def new_id(prefix: str) -> str:
    """Return an id that no client can guess."""
    return prefix + token_hex(ID_BYTES)


def document_id(store_id: str, file_id: str, number: int) -> str:
    """Return the id of a file's document in a store; its number counts from 0."""
    return f"{store_id}/{file_id}/{number}"


def place_of(document: str) -> StoredAt | None:
    """Return where a document belongs; None = it is in no vector store."""
    found = _PLACE.fullmatch(document)
    return None if found is None else StoredAt(found[1], found[2])


def document_keys(
    connection: Connection, tenant: str, store_id: str, file_id: str = ""
) -> tuple[DocumentKey, ...]:
    """Return the documents of a store, or of one file in it."""
    folder = f"{store_id}/{file_id}" if file_id else store_id
    rows = connection.execute(
        "SELECT DISTINCT tenant, id FROM documents WHERE tenant = ? AND id > ? AND id < ?",
        (tenant, f"{folder}/", f"{folder}{_AFTER_SLASH}"),
    )
    return tuple((owner, name) for owner, name in rows)


def searchable_chunks(
    connection: Connection, tenant: str, store_id: str, file_id: str
) -> tuple[int, ...]:
    """Return the chunks of a file's documents that searches can find, in the file's order."""
    folder = f"{store_id}/{file_id}/"
    rows = connection.execute(
        "SELECT chunk_id FROM documents JOIN chunks USING (version)"
        " WHERE tenant = ? AND id > ? AND id < ? AND status = 'live'"
        " ORDER BY CAST(substr(id, ?) AS INTEGER), position",
        (tenant, folder, folder[:-1] + _AFTER_SLASH, len(folder) + 1),
    )
    return tuple(chunk_id for (chunk_id,) in rows)
