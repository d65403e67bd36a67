"""The files that wait to be indexed into their stores: the queue is on the disk."""

from heddle.corpus.rows.connection import Claim, Connection, Database
from heddle.corpus.rows.deletion import delete_documents
from heddle.corpus.vector_stores.attached_files import SELECT, attached_file
from heddle.corpus.vector_stores.document_names import document_id, document_keys
from heddle.corpus.vector_stores.records import AttachedFile, FailureKind


class FileQueue:
    """The files in progress, the oldest first. Each method is one transaction.

    A file leaves it as completed, failed or cancelled, or with its store. Documents of a file that
    has left it are deleted when its indexing ends, unless it is complete as before.

    Args:
        database: the corpus's.

    Raises, from every method: StorageError when the disk refuses.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self) -> Claim | None:
        """Return the sole right to work at the queue; None = another server has it."""
        return self._database.claim("file-queue")

    def begin(self) -> AttachedFile | None:
        """Return the file that waits longest, with this attempt counted; None = none waits."""
        with self._database.read() as connection:
            if _oldest(connection) is None:
                return None  # nothing is written where there is nothing to do
        with self._database.write() as connection:
            number = _oldest(connection)
            connection.execute(
                "UPDATE store_files SET attempts = attempts + 1 WHERE number = ?", (number,)
            )
            row = connection.execute(f"{SELECT} WHERE store_files.number = ?", (number,)).fetchone()
        return None if row is None else attached_file(row)

    def waits(self, file: AttachedFile) -> bool:
        """Whether a file is still in progress."""
        with self._database.read() as connection:
            return is_waiting(connection, file)

    def put_back(self, file: AttachedFile) -> None:
        """Let a file wait as if this attempt had not been."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE store_files SET attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0"
                " END WHERE number = ?",
                (file.number,),
            )

    def complete(self, file: AttachedFile, documents: int, size: int) -> bool:
        """Say that a file is in its store, whole; return False where that is no longer wanted.

        A file that was put into its store again meanwhile goes on waiting.

        Args:
            file: it was begun.
            documents: how many it has; others that it had before are deleted.
            size: what its texts and vectors take [bytes].
        """
        with self._database.write() as connection:
            attempts = _attempts(connection, file)
            if attempts is not None:
                _delete_from(connection, file, documents)
            elif not _is_completed(connection, file):
                _delete_from(connection, file, 0)
            is_wanted = attempts == file.attempts
            if is_wanted:
                connection.execute(
                    "UPDATE store_files SET state = 'completed', bytes = ? WHERE number = ?",
                    (size, file.number),
                )
        return is_wanted

    def fail(self, file: AttachedFile, kind: FailureKind, why: str) -> None:
        """Say that a file can't be in its store, and delete what is there of it.

        One whose batch was cancelled meanwhile stays, where it was complete before.
        """
        with self._database.write() as connection:
            if not _is_completed(connection, file):
                _delete_from(connection, file, 0)
            connection.execute(
                "UPDATE store_files SET state = 'failed', failure_kind = ?, failure = ?, bytes = 0"
                " WHERE number = ? AND state = 'in_progress'",
                (kind.value, why, file.number),
            )


def is_waiting(connection: Connection, file: AttachedFile) -> bool:
    """Whether a file is still in progress, inside a transaction."""
    return _attempts(connection, file) is not None


def _oldest(connection: Connection) -> int | None:
    row = connection.execute(
        "SELECT number FROM store_files WHERE state = 'in_progress' ORDER BY number LIMIT 1"
    ).fetchone()
    return None if row is None else int(row[0])


def _attempts(connection: Connection, file: AttachedFile) -> int | None:
    """Return how often a file's indexing has begun; None = it doesn't wait for it any more."""
    row = connection.execute(
        "SELECT attempts FROM store_files WHERE number = ? AND state = 'in_progress'",
        (file.number,),
    ).fetchone()
    return None if row is None else int(row[0])


def _is_completed(connection: Connection, file: AttachedFile) -> bool:
    row = connection.execute(
        "SELECT 1 FROM store_files WHERE number = ? AND state = 'completed'", (file.number,)
    ).fetchone()
    return row is not None


def _delete_from(connection: Connection, file: AttachedFile, number: int) -> None:
    """Delete the documents of a file from a number on."""
    keys = document_keys(connection, file.tenant, file.store_id, file.file_id)
    kept = {document_id(file.store_id, file.file_id, place) for place in range(number)}
    later = [key for key in keys if key[1] not in kept]
    delete_documents(connection, later)
