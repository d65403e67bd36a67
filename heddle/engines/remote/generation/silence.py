"""The end of an answer that has begun and brings nothing more."""

import asyncio
from typing import Final

from heddle.engines.remote.generation.answer_stream import AnswerStream

SILENCE_S_MAX: Final = 60.0  # between two pieces of an answer that has begun
LOOKS: Final = 12  # within that time


class SilenceWatch:
    """Ends a wait when an answer that has begun brings nothing more.

    It looks `LOOKS` times within the allowed silence, so an answer ends at most a twelfth of that
    time too late. One timer a look, and not one a piece, keeps the cost off fast streams.

    Args:
        stream: the answer.
        limit: the wait that is ended.
        loop: calls the looks.
    """

    def __init__(
        self, stream: AnswerStream, limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._stream, self._limit, self._loop = stream, limit, loop
        self._seen = 0
        self._looks_in_vain = 0
        self._wait()

    def stop(self) -> None:
        """Watch no more."""
        self._timer.cancel()

    def _wait(self) -> None:
        self._timer = self._loop.call_later(SILENCE_S_MAX / LOOKS, self._look)

    def _look(self) -> None:
        seen = self._stream.bytes_seen
        self._looks_in_vain = self._looks_in_vain + 1 if seen == self._seen else 0
        self._seen = seen
        if seen and self._looks_in_vain >= LOOKS:
            self._limit.reschedule(self._loop.time())
        else:
            self._wait()
