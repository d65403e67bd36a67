"""Tokenising on the server's cores, beside the step that the lane computes. (WindVE §IV-D)"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from heddle.encoder.tokenized_text import TokenizedText

log = logging.getLogger(__name__)
Tokenize = Callable[[Sequence[str]], Sequence[TokenizedText]]


class TokenizerThread:
    """A thread of a lane that tokenises, one call after another.

    Args:
        tokenize: the worker's; it lets other threads run meanwhile.
        cpus: the cores that the thread is pinned to; () = wherever the system puts it. Where the
            system refuses them, the thread stays on the lane's own, and the log says so.
    """

    def __init__(self, tokenize: Tokenize, cpus: Sequence[int] = ()) -> None:
        self._tokenize = tokenize
        self._pool = ThreadPoolExecutor(1, "tokenize", _pin, (tuple(cpus),))

    def start(self, texts: Sequence[str]) -> "Future[Sequence[TokenizedText]]":
        """Begin to tokenise texts; the future has one entry for each, or what was raised."""
        return self._pool.submit(self._tokenize, texts)

    def __call__(self, texts: Sequence[str]) -> Sequence[TokenizedText]:
        """Tokenise texts and wait for them."""
        return self.start(texts).result()

    def close(self) -> None:
        """End the thread, after the call that is under way."""
        self._pool.shutdown()


def _pin(cpus: tuple[int, ...]) -> None:
    """Pin the thread that calls this."""
    if not cpus or not hasattr(os, "sched_setaffinity"):
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:  # a container's cores may be changed while it runs
        log.warning(
            "texts are tokenised on the lane's own cores, as cores %s can't be used: %s",
            ", ".join(map(str, cpus)),
            error.strerror,
        )
