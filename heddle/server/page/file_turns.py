"""Whose file is read: whole files wait for their turn, within bounds on bytes and time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from heddle.core.errors import Busy

READ_AT_ONCE: Final = 1  # a parser may take gigabytes
HELD_BYTES_MAX: Final = 128 << 20  # of files that are whole; half of what all bodies may hold
TURN_S: Final = 60.0
AGAIN_S: Final = 5.0  # how long a file takes is not known before it is read


class FileTurns:
    """Lets files be read one after the other.

    A file takes part once it is whole, so that clients that send slowly hold up none.
    """

    def __init__(self) -> None:
        self._may_read = asyncio.Semaphore(READ_AT_ONCE)
        self._held_bytes = 0

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait for the turn of a file of `size` bytes, and hold it.

        Raises:
            Busy: files of too many bytes wait already, or the turn has not come in `TURN_S`.
        """
        if self._held_bytes + size > HELD_BYTES_MAX:
            words = f"files of up to {HELD_BYTES_MAX >> 20} MiB wait to be read already"
            raise Busy(words, wait_s=AGAIN_S)
        self._held_bytes += size
        try:
            await self._wait()
            try:
                yield
            finally:
                self._may_read.release()
        finally:
            self._held_bytes -= size

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(TURN_S):
                await self._may_read.acquire()
        except TimeoutError:
            words = f"other files have been read for {TURN_S:g} s, and this one had no turn"
            raise Busy(words, wait_s=AGAIN_S) from None
