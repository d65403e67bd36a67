"""Hears that another process has committed something. A hint: the revision alone says what."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Final, LiteralString

import psycopg

from heddle.core.errors import HeddleError
from heddle.corpus.descriptors import is_readable
from heddle.corpus.postgres.pool import ConnectionPool, Pg

RETRY_S: Final = 2.0  # between two tries while the server is away

log = logging.getLogger(__name__)


class Listener:
    """A thread with a connection of its own, from construction to `close`.

    Args:
        pool: makes the connection.
        listen: the statement that begins to listen.
        on_change: called from the thread, with each notice and after each new connection.
    """

    def __init__(
        self, pool: ConnectionPool, listen: LiteralString, on_change: Callable[[], None]
    ) -> None:
        self._pool, self._listen, self._on_change = pool, listen, on_change
        self._is_closed = threading.Event()
        self._reader, self._writer = os.pipe()  # ends a wait for notices
        self._thread = threading.Thread(target=self._run, name="heddle-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Called once."""
        self._is_closed.set()
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection = self._pool.connect()
                try:
                    connection.execute(self._listen)
                    self._hear(connection)
                finally:
                    connection.close()
            except (HeddleError, psycopg.Error) as error:
                log.debug("notices of changes are not heard: %s", error)
                self._is_closed.wait(RETRY_S)

    def _hear(self, connection: Pg) -> None:
        """Call `on_change` with each notice, until `close` or until the connection ends."""
        while not self._is_closed.is_set():
            self._on_change()
            is_readable(connection.fileno(), self._reader, wait_s=None)
            for _ in connection.notifies(timeout=0):
                pass  # one call for all of them
