"""Indexing a corpus anew while its present index is searched."""

import logging
import math
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import faiss

from heddle.core.ports import Clock

log = logging.getLogger(__name__)
T = TypeVar("T")
PAUSE_S: Final = 10.0  # after the first failure; doubles with each one that follows
PAUSE_S_MAX: Final = 600.0


class Rebuild(Generic[T]):
    """Makes another index of the same corpus, in a thread of its own, one at a time.

    An index that can't be made is logged and tried again after a pause: the present one stays
    right meanwhile, its searches only take longer.

    Args:
        make: returns the index; called in the thread.
        clock: measures the pauses.
    """

    def __init__(self, make: Callable[[], T], clock: Clock) -> None:
        self._make, self._clock = make, clock
        self._thread: threading.Thread | None = None
        self._made: T | None = None
        self._failures = 0
        self._again_s = -math.inf
        self.problem = ""  # why the last try failed, and when the next may begin

    @property
    def is_ready(self) -> bool:
        """Whether `take` has an index to give."""
        return self._made is not None

    @property
    def is_due(self) -> bool:
        """Whether what failed is to be tried again by now."""
        return bool(self.problem) and self._thread is None and self._may_begin

    @property
    def _may_begin(self) -> bool:
        return self._clock.now_s() >= self._again_s

    def start(self) -> None:
        """Begin, unless one is being made, waits to be taken, or has just failed."""
        if self._thread is None and self._may_begin:
            if not self.problem:
                self._failures = 0
            self._thread = threading.Thread(target=self._run, name="index-rebuild")
            try:
                self._thread.start()
            except RuntimeError as error:  # the system lets this process have no more threads
                self._thread = None
                self.refuse(error)

    def wait(self) -> None:
        """Return when nothing is being made any more."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def take(self) -> T:
        """Give away the index that was made."""
        made, self._made, self._thread = self._made, None, None
        assert made is not None, "no index was made"
        return made

    def refuse(self, error: Exception) -> None:
        """Note why another index is not served: it couldn't be made, or is of no use."""
        pause_s = min(PAUSE_S * 2**self._failures, PAUSE_S_MAX)
        self._failures = min(self._failures + 1, 16)  # the pause is at its longest long before
        self._again_s = self._clock.now_s() + pause_s
        self.problem = (
            f"the index is searched as it is, another could not be made: {error}; "
            f"tried again {pause_s:g} s later"
        )
        log.warning("%s", self.problem)

    def _run(self) -> None:
        faiss.omp_set_num_threads(1)  # of this thread: searches keep theirs
        try:
            made = self._make()
        except Exception as error:
            self.refuse(error)
            self._thread = None  # last: from now on another may begin
            return
        self._again_s, self.problem = -math.inf, ""
        self._made = made
