"""Writes behind the caller's back: one thread, a bounded queue, nothing lost on close."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


class ChunkWriter(Generic[T]):
    """Calls `write` for each item, in order, on a thread of its own. Thread-safe.

    Args:
        write: an error that it raises is logged, and the next item comes.
        bytes_max: what may wait, with the item being written; more is refused.
    """

    def __init__(self, write: Callable[[T], None], bytes_max: int) -> None:
        self._write = write
        self._bytes_max = bytes_max
        self._queue: deque[tuple[T, int]] = deque()  # the first one is being written
        self._bytes = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="heddle-kv-write", daemon=True)
        self._thread.start()

    def offer(self, item: T, nbytes: int) -> bool:
        """Queue an item; False, without waiting, where the queue is full or closed."""
        with self._changed:
            # One item larger than the whole queue is written all the same, alone.
            is_full = bool(self._queue) and self._bytes + nbytes > self._bytes_max
            if is_full or self._is_closing:
                return False
            self._queue.append((item, nbytes))
            self._bytes += nbytes
            self._changed.notify_all()
            return True

    def flush(self) -> None:
        """Wait until all that was queued before is written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue)

    def close(self) -> None:
        """Write what is queued and end the thread; later offers are refused."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_closing)
                if not self._queue:
                    return
                item, nbytes = self._queue[0]
            try:
                self._write(item)
            except Exception:
                log.exception("an entry of the chunk KV could not be written")
            with self._changed:
                self._queue.popleft()
                self._bytes -= nbytes
                self._changed.notify_all()
