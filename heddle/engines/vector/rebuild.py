"""Indexing a corpus anew while its present index is searched."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import faiss

log = logging.getLogger(__name__)
T = TypeVar("T")


class Rebuild(Generic[T]):
    """Makes another index of the same corpus, in a thread of its own, one at a time.

    An index that can't be made is logged and not tried again: the present one stays right, its
    searches only take longer.

    Args:
        make: returns the index; called in the thread.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._thread: threading.Thread | None = None
        self._made: T | None = None
        self._has_failed = False

    @property
    def is_ready(self) -> bool:
        """Whether `take` has an index to give."""
        return self._made is not None

    def start(self) -> None:
        """Begin, unless one is being made, waits to be taken, or could not be made."""
        if self._thread is None and not self._has_failed:
            self._thread = threading.Thread(target=self._run, name="index-rebuild")
            self._thread.start()

    def wait(self) -> None:
        """Return when nothing is being made any more."""
        if self._thread is not None:
            self._thread.join()

    def take(self) -> T:
        """Give away the index that was made."""
        made, self._made, self._thread = self._made, None, None
        assert made is not None, "no index was made"
        return made

    def _run(self) -> None:
        faiss.omp_set_num_threads(1)  # of this thread: searches keep theirs
        try:
            self._made = self._make()
        except Exception as error:
            self._has_failed = True
            log.warning("the index stays as it is, though the corpus has outgrown it: %s", error)
