"""The thread that scrubs a server's corpus."""

import logging
import threading
from typing import Final

from heddle.core.errors import HeddleError
from heddle.core.ports import Clock
from heddle.corpus.checks.health import CorpusHealth
from heddle.corpus.checks.scrub import Scrub

log = logging.getLogger(__name__)
RETRY_S: Final = 60.0  # after the disk has refused


class Scrubbing:
    """Steps of a scrub, in a thread of its own, from `start` to `end`.

    Args:
        health: the corpus's.
        hours: between two passes; 0 = only what is known to be damaged is read again.
        clock: the time of each step.
    """

    def __init__(self, health: CorpusHealth, hours: float, clock: Clock) -> None:
        self._clock = clock
        self._scrub = Scrub(health, hours, clock.now_s())
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heddle-scrub", daemon=True)
        self.problem = ""  # why the corpus can't be read; it is tried again

    @property
    def chunks(self) -> int:
        """How many chunks were read so far."""
        return self._scrub.chunks

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Begin no further step, and wait for the one under way."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._is_over.wait(wait_s):
            wait_s = self._step()

    def _step(self) -> float:
        """Take a step; return how long to rest [s]."""
        now_s = self._clock.now_s()
        try:
            wake_s = self._scrub.step(now_s)
        except HeddleError as error:
            if not self.problem:
                log.error("the corpus can't be checked: %s", error)
            self.problem = str(error)
            return RETRY_S
        self.problem = ""
        return wake_s - now_s
