"""A connection that can't be held without a request: heads end in time, and idle ones make room.

uvicorn bounds neither the time that a request's head takes nor its number of headers, and its
`limit_concurrency` counts connections that ask for nothing, so that some hundred of them turn
everybody away. (docs/guide/serving.md#bounds)
"""

import asyncio
import socket
from collections import OrderedDict
from typing import Any, ClassVar, Final

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from heddle.server.connection.chunk_writer import ChunkWriter

HEAD_S: Final = 10.0
# Longer than clients keep a connection (httpx, and so openai: 5 s): the one that closes it first
# can't send a request into a connection that the other is closing.
IDLE_S: Final = 75
HEAD_BYTES_MAX: Final = (
    32 << 10
)  # a head that comes in pieces; see concurrency_limit.py for whole ones
WAITING_MAX: Final = 512
UNREAD_MS_MAX: Final = 120_000
_TIMED_OUT: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


class BoundedConnection(H11Protocol):
    """uvicorn's HTTP/1.1 connection with bounds on what comes before a whole request.

    A connection waits while the head or the body of a request isn't there. After its beginning, or
    the first byte after an answer, a head has `HEAD_S`. Of more than `WAITING_MAX` connections that
    wait, the one that has waited longest is closed: those that ask always find room.
    """

    # Of all connections of this process, the one that has waited longest first.
    waiting: ClassVar[OrderedDict["BoundedConnection", None]] = OrderedDict()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.timeout_keep_alive = IDLE_S
        self._head_timer: asyncio.TimerHandle | None = None
        self._application, self.app = self.app, self._serve

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; the pieces of a stream leave by a shorter way than uvicorn's `send`."""
        del send
        await self._application(scope, receive, ChunkWriter(self.cycle))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head; its time runs from here, whether a byte comes or not."""
        super().connection_made(transport)
        _limit_unread(transport)
        self._settle()
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first ones after an answer start the time of a head."""
        if self._head_timer is None and self._has_answered:
            self._limit_head()
        super().data_received(data)
        self._settle()

    def on_response_complete(self) -> None:
        """Wait for the next request, but for one that is here already."""
        super().on_response_complete()
        self._settle()
        if self.conn.their_state is h11.SEND_BODY:  # its rest is never read
            self._limit_head()

    def give_up(self) -> None:
        """Close the connection, to make room for others."""
        self.transport.close()

    @property
    def _has_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _settle(self) -> None:
        """Count the connection as waiting or not, as its state now is.

        Mutates: may close the connection that has waited longest.
        """
        state = self.conn.their_state
        if state is h11.IDLE and not self._has_answered:
            state = h11.DONE
        if state is not h11.IDLE and not self._has_answered:
            self._stop_timer()
        if state not in (h11.IDLE, h11.SEND_BODY):
            self.waiting.pop(self, None)
        else:
            self._wait()

    def _wait(self) -> None:
        """Count the connection as waiting.

        Mutates: may close the connection that has waited longest.
        """
        if self in self.waiting or self.transport.is_closing():
            return
        self.waiting[self] = None
        if len(self.waiting) > WAITING_MAX:
            oldest, _ = self.waiting.popitem(last=False)
            oldest.give_up()

    def _limit_head(self) -> None:
        """Give the client `HEAD_S` for the head of its next request."""
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_S, self._refuse_head)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse_head(self) -> None:
        """Close a connection that sent no whole head in time; 408 where one had begun."""
        self._head_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.write(_TIMED_OUT)
        self.transport.close()


def _limit_unread(transport: asyncio.Transport) -> None:
    """Have the kernel end the connection of a client that takes no byte of its answer.

    It would hold the answer in memory, and a stream's place among the requests, for as long as it
    likes: where its window is closed, the kernel asks again for ever.
    """
    connected = transport.get_extra_info("socket")
    if connected is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS_MAX)
