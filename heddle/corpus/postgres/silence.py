"""A database server that takes connections and statements, and answers none."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from heddle.corpus.postgres.errors import unreachable

FIRST_S: Final = 0.1  # before it is asked: one that was only slow is heard again at once
SILENT: Final = "it does not answer"
RETRY_S: Final = 1.0  # before each further question

log = logging.getLogger(__name__)


class Silence:
    """From the first answer that didn't come until the server says anything again. Thread-safe.

    Only one thread waits for it meanwhile, which asks. A host whose server is away refuses
    at once, which is no silence: the next who needs it finds out.

    Args:
        is_heard: asks the server, and returns whether it says anything, a refusal too.
        name: what people call the database.
    """

    def __init__(self, is_heard: Callable[[], bool], name: str) -> None:
        self._is_heard, self._name = is_heard, name
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._is_over.set()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._pools = 0

    def begin(self) -> None:
        """Say that an answer didn't come; does nothing where it has begun."""
        with self._lock:
            if self._is_closed.is_set() or not self._is_over.is_set():
                return
            log.warning("%s does not answer: it is asked in the background", self._name)
            self._is_over.clear()
            self._thread = threading.Thread(target=self._run, name="heddle-silence", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Return where there is none.

        Raises: Unreachable: the server answers nothing.
        """
        if not self._is_over.is_set():
            raise unreachable(self._name, SILENT)

    def add_pool(self) -> None:
        """Say that one more pool of connections asks here."""
        with self._lock:
            self._pools += 1

    def remove_pool(self) -> None:
        """Say that a pool is closed; with the last one the thread ends."""
        with self._lock:
            self._pools -= 1
            if self._pools:
                return
            self._is_closed.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        pause_s = FIRST_S
        while not self._is_closed.wait(pause_s):
            if self._is_heard():
                log.info("%s answers again", self._name)
                self._is_over.set()
                return
            pause_s = RETRY_S
