"""The disk tier of the chunk KV store: its files, those that wait to be written, its failures."""

import logging
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final, NamedTuple

from heddle.kv.chunk_directory import ChunkDirectory, Ticket
from heddle.kv.chunk_entry import StoredChunk
from heddle.kv.disk.chunk_files import ChunkFiles
from heddle.kv.disk.chunk_header import ChunkFile
from heddle.kv.disk.chunk_writer import ChunkWriter

EndOfWrite = Callable[[str | None], None]
DISK_RETRY_S: Final = 60.0  # a disk that has failed is tried again with one entry

log = logging.getLogger(__name__)


class DiskTier:
    """Reads, writes and removes the files of entries, and notes when the disk refuses them.

    A disk that has failed gets one entry in DISK_RETRY_S until it takes one again. A folder that
    can't be written to when the tier opens is only read.

    Args:
        files: where entries lie; None = there is no disk tier.
        directory: of the store: what is in host memory, on disk, or on its way there.
        lock: guards the directory. Files are named and removed under it, so that one that is
            forgotten doesn't come back; none is read or written under it.
        bytes_max: what the files may take.
        queue_bytes_max: entries that wait to be written.
        removes_excess: files beyond `bytes_max` are removed when it opens, and not only left aside.

    Mutates: what the directory knows of the disk. `problem` says why nothing is written, None
        while entries are; `unwritten` counts those that the disk didn't take. `is_gone`, for the
        caller to set, says whether one of these ids of the corpus is deleted: a file whose values
        have seen it is removed instead of taken in. It is called from any thread, under the lock.
    """

    def __init__(
        self,
        files: ChunkFiles | None,
        directory: ChunkDirectory,
        lock: threading.Lock,
        bytes_max: int,
        queue_bytes_max: int,
        *,
        removes_excess: bool,
    ) -> None:
        self.is_gone: Callable[[Sequence[int]], bool] = _none_is_gone
        self.problem: str | None = "chunk KV has no disk tier: set kv_reuse_disk_bytes"
        self.unwritten = 0
        self._directory = directory
        self._lock = lock
        self._bytes_max = bytes_max
        self._removes_excess = removes_excess
        self._wake: Callable[[], None] = _no_subscriber
        self._retry_s: float | None = None  # when a disk that has failed may be tried again
        self._files = None if files is None else self._opened(files)
        self._writer: ChunkWriter[_Write] | None = (
            ChunkWriter(self._write, queue_bytes_max) if self.problem is None else None
        )

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the writer's thread, when `problem` has changed."""
        self._wake = wake

    def takes_entries(self, now_s: float) -> bool:
        """Whether an entry may be queued now. The caller holds the lock.

        Mutates: the first call after a failure settles when the disk is tried again.
        """
        if self.problem is None or self._writer is None:
            return self.problem is None
        if self._retry_s is None:
            self._retry_s = now_s + DISK_RETRY_S
        return now_s >= self._retry_s

    def queue(
        self, ticket: Ticket, stored: StoredChunk, ended: EndOfWrite, now_s: float
    ) -> str | None:
        """Have an entry written a little later. The caller holds the lock.

        Args:
            ticket: of the entry, in the directory.
            stored: what is written.
            ended: called once, from the writer's thread, with None or why there is no file.
            now_s: as `takes_entries` was asked at.
        Returns: why it won't be written, and `ended` not be called; None where it is queued.
        """
        assert self._writer is not None, "there is no disk to write to"
        is_trial = self.problem is not None
        if not self._writer.offer(_Write(ticket, stored, ended, is_trial), stored.kv.nbytes):
            self.unwritten += 1
            self._directory.end_write(ticket, is_written=False)
            return "too much waits for the disk already: write_queue_bytes_max is full"
        if is_trial:
            self._retry_s = now_s + DISK_RETRY_S
        return None

    def read(self, ticket: Ticket) -> StoredChunk | None:
        """Return an entry; None, with a log line, where its file is missing, unusable or another's.

        Another process may have put KV of the same name in its place, whose keys were computed at
        other positions. The directory knows that file by its own record from then on.
        """
        assert self._files is not None, "there is no disk to load from"
        stored = self._files.read(ticket.key)
        if stored is None:
            return None
        with self._lock:
            if not self._directory.is_current(ticket):
                return None  # forgotten meanwhile
            if self._directory.is_current(ticket, (stored.record, stored.kv.nbytes)):
                return stored
            self._directory.end_load(ticket, is_read=False)
        log.info("chunk KV %s: another process has stored it anew", ticket.key.hex())
        self.look_for(ticket.key)
        return None

    def look_for(self, key: bytes) -> None:
        """Take in the file of an entry that another process may have written."""
        if self._files is not None:
            file = self._files.find(key)
            if file is not None:
                self._take_in(self._files, file)

    def refresh(self, known: Container[bytes]) -> None:
        """Take in the files whose keys are not known; none where the budget has no room for it."""
        excess = () if self._files is None else self._take_in_all(self._files, known)
        if excess:
            log.warning("%d files of chunk KV exceed disk_bytes_max: not used here", len(excess))

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove the files of entries. The caller holds the lock, or a new file of a name goes."""
        if self._files is not None:
            self._files.remove(keys)

    def flush(self) -> None:
        """Wait until all that was queued before is on disk, or refused by it."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Write what is queued, then end the writer's thread."""
        if self._writer is not None:
            self._writer.close()

    def _opened(self, files: ChunkFiles) -> ChunkFiles | None:
        """Take in what lies in the folder, and make it fit the budget; None: it can't be read.

        Mutates: `problem`.
        """
        try:
            is_writable = files.open()
        except OSError as error:
            self.problem = f"chunk KV has no disk tier: {error}; make {files.folder} writable"
            log.error("%s", self.problem)
            return None
        self.problem = None
        if not is_writable:
            self.problem = f"chunk KV is not written to disk: make {files.folder} writable"
            log.error("%s", self.problem)
        excess = self._take_in_all(files, known=())
        if excess:
            end = "removed" if self._removes_excess else "not used here"
            log.warning("%d files of chunk KV exceed disk_bytes_max: %s", len(excess), end)
            files.remove(excess if self._removes_excess else ())
        return files

    def _take_in_all(self, files: ChunkFiles, known: Container[bytes]) -> tuple[bytes, ...]:
        """Take in the files that are new here; return the keys of those that exceed the budget.

        The newest have room first. They are taken in last, for of equally cold entries the one
        that came first leaves first.
        """
        with self._lock:
            left = self._bytes_max - self._directory.disk.bytes_used
        fitting: list[ChunkFile] = []
        excess: list[bytes] = []
        for file in files.scan(known):
            if file.file_bytes <= left:
                left -= file.file_bytes
                fitting.append(file)
            else:
                excess.append(file.record.key)
        refused = (file for file in reversed(fitting) if not self._take_in(files, file))
        return (*excess, *(file.record.key for file in refused))

    def _take_in(self, files: ChunkFiles, file: ChunkFile) -> bool:
        """Know a file from now on, unless it is gone already; False: the budget has no room."""
        with self._lock:
            record = file.record
            if record.key in self._directory or not files.has(record.key):
                return True
            # Its writer may have computed it before the deletion, and named it afterwards.
            if self.is_gone(record.sources):
                files.remove((record.key,))
                return True
            return self._directory.restore(record, file.nbytes, file.file_bytes)

    def _write(self, write: "_Write") -> None:
        """Write an entry's file, on the writer's thread."""
        problem: str | None = "its file could not be made"
        try:
            problem = self._write_file(write)
        except OSError as error:
            problem = (
                f"chunk KV is not written to disk: {error}; mend that, it is tried again once in "
                f"{DISK_RETRY_S:g} s"
            )
            log.error("%s", problem)
            self._set_problem(problem)
        finally:
            if problem is not None:
                with self._lock:
                    self.unwritten += self._directory.is_current(write.ticket)
                    self._directory.end_write(write.ticket, is_written=False)
            write.ended(problem)

    def _write_file(self, write: "_Write") -> str | None:
        """Return why there is no file, or None; what was forgotten meanwhile needs none."""
        files, ticket = self._files, write.ticket
        assert files is not None, "there is no disk to write to"
        content = files.pack(write.stored)
        with self._lock:
            problem = None if write.is_trial else self.problem
            if problem is not None or not self._directory.is_current(ticket):
                return problem
            evicted = self._directory.begin_write(ticket, len(content))
            if evicted is None:
                return f"kv_reuse_disk_bytes ({self._bytes_max}) is full: raise it"
            files.remove(evicted)
        # Named under the lock: what is forgotten has no name yet, or loses it right after.
        with files.staged(ticket.key, content) as staged, self._lock:
            if not self._directory.is_current(ticket):
                return None
            files.publish(staged, ticket.key)
            self._directory.end_write(ticket, is_written=True)
        files.sync()
        if write.is_trial:
            log.info("chunk KV is written to disk again")
            self._set_problem(None)
        return None

    def _set_problem(self, problem: str | None) -> None:
        with self._lock:
            self.problem, self._retry_s = problem, None
        self._wake()


class _Write(NamedTuple):
    ticket: Ticket
    stored: StoredChunk
    ended: EndOfWrite
    is_trial: bool


def _none_is_gone(sources: Sequence[int]) -> bool:
    """Stand in for a corpus where there is none."""
    return False


def _no_subscriber() -> None:
    """Stand in for a subscriber until there is one."""
