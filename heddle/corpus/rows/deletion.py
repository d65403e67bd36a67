"""Documents leave the corpus, and its revision says so. Runs in the caller's transaction."""

from collections.abc import Iterable

from heddle.corpus.document import DocumentKey
from heddle.corpus.rows import document_table, meta_table
from heddle.corpus.rows.connection import Connection


def delete_documents(connection: Connection, keys: Iterable[DocumentKey]) -> None:
    """Delete all versions of documents; where a search could find one, raise the revision.

    Args:
        connection: inside a write transaction.
        keys: documents; unknown ones are ignored.
    """
    revision = meta_table.revision(connection) + 1
    if document_table.delete(connection, keys, revision):
        meta_table.write(connection, "revision", revision)
