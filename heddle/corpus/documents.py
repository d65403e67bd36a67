"""Documents of a corpus: put, deleted, listed, and their chunks that wait for vectors."""

from collections.abc import Iterable, Sequence

from heddle.core.errors import Cancelled
from heddle.corpus.checks.health import CorpusHealth
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.records import ListedDocument, PendingChunk, PutOutcome
from heddle.corpus.rows import document_table, meta_table, vector_table
from heddle.corpus.rows.connection import Database
from heddle.corpus.rows.deletion import delete_documents
from heddle.corpus.vector_stores.file_queue import is_waiting
from heddle.corpus.vector_stores.records import AttachedFile


class Documents:
    """The documents of a corpus. Every method that writes is one short transaction.

    Args:
        database: the corpus's.
        health: looks at known damage again after each write, which may have mended it.

    Raises, from every method: StorageError when the database refuses.
    """

    def __init__(self, database: Database, health: CorpusHealth) -> None:
        self._database = database
        self._health = health

    def put_document(
        self, document: Document, chunks: Sequence[TextChunk], *, chunking: str = ""
    ) -> PutOutcome:
        """Store a document, or a new version of it, to be embedded.

        The version that it replaces stays searchable until this one has all its vectors.

        Raises:
            InputError: it has no chunks.
        """
        return self.put_documents(((document, chunks),), chunking=chunking)[0]

    def put_documents(
        self,
        items: Iterable[tuple[Document, Sequence[TextChunk]]],
        *,
        scan: int = 0,
        chunking: str = "",
        file: AttachedFile | None = None,
    ) -> tuple[PutOutcome, ...]:
        """Store documents with their chunks in one transaction: all of them or none.

        Args:
            items: documents with their chunks.
            scan: the number of an indexing run, from `begin_scan`; ids are then checked to be
                unique within the run and over the files that are known. 0 = no run, no check.
            chunking: how the texts were cut. A text that was cut in another way is a new version.
            file: the file of a vector store that they are of; None = they are of no such file.

        Raises:
            InputError: a document has no chunks, or in a run its id is not unique.
            Cancelled: any process has taken the file out of its store since it was begun.
        """
        with self._database.write() as connection:
            if file is not None and not is_waiting(connection, file):
                raise Cancelled(f"{file.name} is no longer wanted")
            revision = meta_table.revision(connection) + 1
            put = [
                document_table.put(
                    connection, document, chunks, scan=scan, chunking=chunking, revision=revision
                )
                for document, chunks in items
            ]
            # A document whose chunks have all been embedded for others needs no more.
            new = [version for _, version in put if version is not None]
            published = document_table.publish_complete(connection, new, revision)
            outcomes = tuple(outcome for outcome, _ in put)
            if published or PutOutcome.DESCRIBED in outcomes:  # filters let others pass
                meta_table.write(connection, "revision", revision)
        self._health.check_damaged()
        return outcomes

    def delete_document(self, document_id: str, *, tenant: str = "") -> bool:
        """Delete a tenant's document with its chunks and vectors; return whether there was one."""
        with self._database.write() as connection:
            is_known = bool(document_table.versions(connection, (tenant, document_id)))
            delete_documents(connection, ((tenant, document_id),))
        self._health.check_damaged()
        return is_known

    def pending_chunks(self, limit: int, *, after: int = 0) -> tuple[PendingChunk, ...]:
        """Return up to `limit` chunks without a vector, with ids above `after`, by ascending id."""
        with self._database.read() as connection:
            return tuple(vector_table.read_pending(connection, limit, after))

    def pending_chunks_of(self, document_id: str, *, tenant: str = "") -> tuple[PendingChunk, ...]:
        """Return the chunks without a vector of one document, by ascending id."""
        with self._database.read() as connection:
            return tuple(vector_table.read_pending_of(connection, (tenant, document_id)))

    def listed(self) -> tuple[ListedDocument, ...]:
        """Return every document, by file and id; of two versions the newer."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, tenant, documents.title, file, collection, count(chunk_id)"
                " FROM documents LEFT JOIN chunks USING (version)"
                " WHERE documents.version = (SELECT max(version) FROM documents AS other"
                "  WHERE other.id = documents.id AND other.tenant = documents.tenant)"
                " GROUP BY documents.version ORDER BY file, id, tenant"
            ).fetchall()
        return tuple(ListedDocument(*row) for row in rows)

    def listed_after(
        self, after: tuple[str, str] | None, limit: int, tenant: str = "", contains: str = ""
    ) -> tuple[ListedDocument, ...]:
        """Return up to `limit` documents by id, those that searches of a tenant find.

        Args:
            after: id and tenant of a document: only those behind it; None = from the first one.
            limit: how many, at most.
            tenant: its documents are listed beside those of no tenant.
            contains: text that the id or the title holds; small letters and capitals are the same
                in ASCII; "" = any.
        """
        first_id, first_tenant = after or ("", "")
        with self._database.read(tenant) as connection:
            rows = connection.execute(
                "SELECT id, tenant, documents.title, file, collection, count(chunk_id)"
                " FROM documents LEFT JOIN chunks USING (version)"
                " WHERE documents.version = (SELECT max(version) FROM documents AS other"
                "  WHERE other.id = documents.id AND other.tenant = documents.tenant)"
                " AND tenant IN ('', ?) AND (? OR (id, tenant) > (?, ?))"
                " AND instr(lower(id || ? || documents.title), lower(?)) > 0"
                " GROUP BY documents.version ORDER BY id, tenant LIMIT ?",
                (tenant, after is None, first_id, first_tenant, "\n", contains, limit),
            ).fetchall()
        return tuple(ListedDocument(*row) for row in rows)
