"""One connection to a server: a request at a time, its response handed over as it comes."""

import asyncio
from collections.abc import Callable
from typing import Final

from heddle.engines.remote.http.response_reader import ResponseReader, ResponseSink
from heddle.engines.remote.problem import RemoteProblem, Trouble

LINGER_S: Final = 1.0  # for the end of a response whose caller has all that it wants
OnDone = Callable[[RemoteProblem | None], None]


class Connection(asyncio.Protocol):
    """Carries requests, one after another.

    Everything happens in the event loop's callbacks: no task is switched to for a piece of a
    response, which is most of the cost of streaming with a general HTTP library.

    Args:
        on_free: called with the connection whenever it can carry the next request.
    """

    def __init__(self, on_free: "Callable[[Connection], None]") -> None:
        self._on_free = on_free
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._sink: ResponseSink | None = None
        self._on_done: OnDone | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._is_used = False
        self._has_answered = False

    @property
    def is_open(self) -> bool:
        """Whether the connection can carry a request."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def was_stale(self) -> bool:
        """Whether it had rested too long: it was used before, and no byte came this time."""
        return self._is_used and not self._has_answered

    def request(self, data: bytes, sink: ResponseSink, on_done: OnDone) -> None:
        """Send a request.

        Args:
            data: head and body.
            sink: takes the response; a RemoteProblem that it raises ends the connection.
            on_done: called once, when the sink is satisfied or the response has ended, with
                the problem where it was cut short.
        """
        assert self._transport is not None, "a request before the connection is made"
        assert self._reader is None, "a request while another one is under way"
        self._reader, self._sink, self._on_done = ResponseReader(sink), sink, on_done
        self._has_answered = False
        self._transport.write(data)

    def hang_up(self) -> None:
        """End the connection now; no callback is called any more."""
        self._on_done = None
        self._drop()

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport over."""
        assert isinstance(transport, asyncio.Transport), "a stream transport was asked for"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand bytes to the reader."""
        reader, sink = self._reader, self._sink
        if reader is None or sink is None:
            self._drop()  # bytes without a request: nothing that follows can be trusted
            return
        self._has_answered = True
        try:
            reader.feed(data)
        except RemoteProblem as problem:
            self._drop()
            self._tell(problem)
            return
        if reader.has_ended:
            self._finish(reader)
        elif sink.is_satisfied and self._on_done is not None:
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._drop)
            self._tell(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell who waits that no more will come."""
        reader, self._transport = self._reader, None
        self._stop_lingering()
        if self._on_done is None or reader is None:
            return
        try:
            if error is not None:
                raise RemoteProblem(Trouble.CUT, "broke the connection")
            reader.close()
        except RemoteProblem as problem:
            self._tell(problem)
        else:
            self._tell(None)

    def _finish(self, reader: ResponseReader) -> None:
        """End the request that is answered, and offer the connection to the next one."""
        self._stop_lingering()
        self._reader = self._sink = None
        self._is_used = True
        may_reuse = reader.may_reuse and self.is_open
        if not may_reuse:
            self._drop()
        self._tell(None)
        if may_reuse:
            self._on_free(self)

    def _tell(self, problem: RemoteProblem | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(problem)

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _drop(self) -> None:
        self._stop_lingering()
        if self._transport is not None:
            self._transport.abort()
