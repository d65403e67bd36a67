"""A connection that is encrypted, with the bounds of one that isn't.

asyncio's own TLS servers show a connection when its handshake is done, after up to 60 s, and so
don't let those that never finish one make room for others. (docs/guide/serving.md#bounds)
"""

import asyncio
import logging
import ssl
from typing import Any, Final

from heddle.server import bounded_connection
from heddle.server.bounded_connection import BoundedConnection

SHUTDOWN_S: Final = 1.0  # for the other side's goodbye; asyncio waits 30 s

log = logging.getLogger(__name__)


class TlsConnection(BoundedConnection):
    """A connection that begins with a handshake, which has `HEAD_S`, and counts as waiting.

    Args:
        context: the server's certificate.
        args, kwargs: uvicorn's.
    """

    def __init__(self, context: ssl.SSLContext, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._context = context
        self._handshake: asyncio.Task[None] | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the handshake."""
        self.transport = transport
        self.connections.add(self)  # uvicorn closes what is in there
        self._wait()
        self._handshake = self.loop.create_task(self._secure(transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._handshake = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take decrypted bytes; those that came with the handshake's end wait for its task."""
        if self._handshake is None:
            super().data_received(data)
        else:
            self._early.append(data)

    def give_up(self) -> None:
        """Close at once: a goodbye would keep the connection until the other side answers."""
        self.transport.abort()

    async def _secure(self, transport: asyncio.Transport) -> None:
        try:
            secured = await self.loop.start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=bounded_connection.HEAD_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:  # of TLS, of the network, or the time is over
            log.info("a TLS handshake failed: %s", error)
            secured = None
        # The connection may be lost between the handshake's end and here.
        is_lost = self._handshake is None
        self._handshake = None
        if is_lost or not isinstance(secured, asyncio.Transport) or secured.is_closing():
            transport.abort()
            self._forget()
            return
        super().connection_made(secured)
        for data in self._early:
            super().data_received(data)
        self._early.clear()

    def _forget(self) -> None:
        self.connections.discard(self)
        self.waiting.pop(self, None)
