"""uvicorn, listening on until the requests under way have ended."""

import asyncio
from types import FrameType

import uvicorn

from heddle.server.drain import Drain


class DrainingServer(uvicorn.Server):
    """A server that goes on answering `/health` while it drains, and closes its port last.

    uvicorn's own end closes the port first, so that clients can't learn why, and after its time
    cuts requests without an error.

    Args:
        config: uvicorn's.
        drain: begins with the first signal.
    """

    def __init__(self, config: uvicorn.Config, drain: Drain) -> None:
        super().__init__(config)
        self._drain = drain
        self._signals: list[int] = []

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: the first one begins the drain, the second ends its wait."""
        self._signals.append(sig)
        self._drain.begin()

    async def on_tick(self, counter: int) -> bool:
        """Say whether to close; called ten times a second."""
        if self._drain.is_over(asyncio.get_running_loop().time()) and not self.should_exit:
            super().handle_exit(self._signals[0], None)
        return await super().on_tick(counter)
