"""uvicorn, listening on until the requests under way have ended."""

import asyncio
import logging
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn

from heddle.server.drain import Drain

TICKS_A_LOOK: Final = 5
log = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """A server that goes on answering `/health` while it drains, and closes its port last.

    uvicorn's own end closes the port first, so that clients can't learn why, and after its time
    cuts requests without an error.

    Args:
        config: uvicorn's.
        drain: begins with the first signal, and where the server can't go on.
        why_end: says why the server can't go on; "" = it can.
    """

    def __init__(
        self, config: uvicorn.Config, drain: Drain, why_end: Callable[[], str] = lambda: ""
    ) -> None:
        super().__init__(config)
        self._drain, self._why_end = drain, why_end
        self._signals: list[int] = []
        self.ended_by = ""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: the first one begins the drain, the second ends its wait."""
        self._signals.append(sig)
        self._drain.begin()

    async def on_tick(self, counter: int) -> bool:
        """Say whether to close; called ten times a second."""
        if counter % TICKS_A_LOOK == 0 and not self._drain.has_begun:
            self.ended_by = self._why_end()
            if self.ended_by:
                log.error("the server ends: %s", self.ended_by)
                self._drain.begin()
        if self._drain.is_over(asyncio.get_running_loop().time()) and not self.should_exit:
            if self._signals:
                super().handle_exit(self._signals[0], None)
            self.should_exit = True
        return await super().on_tick(counter)
