"""Requests to one server, over connections that are kept for the next ones."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from heddle.engines.remote.address import Address
from heddle.engines.remote.http.connection import Connection
from heddle.engines.remote.http.response_reader import ResponseSink
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.secret import NO_KEY, Secret

CONNECT_S_MAX: Final = 5.0
CONNECTIONS_KEPT_MAX: Final = 64
BODY_BYTES_MAX: Final = 64 << 20  # a batch of embeddings, as text


class Response(NamedTuple):
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class _Whole:
    """Collects a response, up to a size."""

    bytes_max: int
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_satisfied: bool = False

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers

    def on_body(self, data: bytes) -> None:
        self.body += data
        if len(self.body) > self.bytes_max:
            raise RemoteProblem(
                Trouble.GARBAGE, f"sent an answer of more than {self.bytes_max >> 10:,} KiB"
            )

    def on_end(self) -> None:
        self.is_satisfied = True


class HttpClient:
    """Talks to one server; all of its methods belong to one event loop's thread.

    The caller bounds the requests under way. Redirects are not followed, proxies of the
    environment not used: text goes to the address that the user has named, and nowhere else.
    """

    def __init__(self, address: Address, key: Secret = NO_KEY) -> None:
        self.address = address
        self.key = key
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._tls = ssl.create_default_context() if address.scheme == "https" else None
        self._heads: dict[tuple[str, str], str] = {}

    async def fetch(
        self,
        method: str,
        call: str,
        body: object = None,
        *,
        seconds: float,
        bytes_max: int = BODY_BYTES_MAX,
    ) -> Response:
        """Return a whole response.

        Args:
            method: GET or POST.
            call: what follows the address, such as /models.
            body: what is sent as JSON; None = nothing.
            seconds: until it must have come.
            bytes_max: the most that its body may have.

        Raises:
            RemoteProblem: it didn't come.
        """
        whole = _Whole(bytes_max)
        try:
            async with asyncio.timeout(seconds):
                await self.send(method, call, body, whole)
        except TimeoutError:
            raise RemoteProblem(Trouble.LATE, f"didn't answer within {seconds:.3g} s") from None
        return Response(whole.status, whole.headers, bytes(whole.body))

    async def send(self, method: str, call: str, body: object, sink: ResponseSink) -> None:
        """Send a request; return when the sink is satisfied or the response has ended.

        Cancelling it hangs up at once.

        Raises:
            RemoteProblem: the response didn't come to its end.
        """
        data = self._request(method, call, body)
        is_fresh = False
        while True:
            connection = await self._connect(is_fresh=is_fresh)
            problem = await self._exchange(connection, data, sink)
            if problem is None:
                return
            if is_fresh or not connection.was_stale:
                raise problem
            is_fresh = True

    def close(self) -> None:
        """Hang up every connection."""
        for connection in (*self._idle, *self._busy):
            connection.hang_up()
        self._idle.clear()
        self._busy.clear()

    async def _exchange(
        self, connection: Connection, data: bytes, sink: ResponseSink
    ) -> RemoteProblem | None:
        done: asyncio.Future[RemoteProblem | None] = asyncio.get_running_loop().create_future()
        is_over = False

        def on_done(problem: RemoteProblem | None) -> None:
            nonlocal is_over
            is_over = True
            self._busy.discard(connection)
            if not done.done():
                done.set_result(problem)

        self._busy.add(connection)
        connection.request(data, sink, on_done)
        try:
            return await done
        except asyncio.CancelledError:
            if not is_over:  # else the connection may carry the next request already
                connection.hang_up()
                self._busy.discard(connection)
            raise

    async def _connect(self, *, is_fresh: bool) -> Connection:
        while self._idle and not is_fresh:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        address, loop = self.address, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._keep), address.host, address.port, ssl=self._tls
                )
        except TimeoutError:
            words = f"can't be reached: no connection within {CONNECT_S_MAX:g} s"
            raise RemoteProblem(Trouble.ABSENT, words) from None
        except ssl.SSLCertVerificationError:
            words = "has a certificate that this machine doesn't trust (SSL_CERT_FILE names others)"
            raise RemoteProblem(Trouble.NO_API, words) from None
        except ssl.SSLError:
            words = "doesn't speak TLS; is it an http:// address?"
            raise RemoteProblem(Trouble.NO_API, words) from None
        except OSError as error:
            raise RemoteProblem(Trouble.ABSENT, _absent_words(error)) from None
        return connection

    def _keep(self, connection: Connection) -> None:
        """Keep a connection for the next request."""
        if len(self._idle) < CONNECTIONS_KEPT_MAX:
            self._idle.append(connection)
        else:
            connection.hang_up()

    def _request(self, method: str, call: str, body: object) -> bytes:
        head = self._heads.get((method, call))
        if head is None:
            head = self._heads[method, call] = self._head(method, call)
        if body is None:
            return f"{head}\r\n".encode("ascii")
        data = json.dumps(body, separators=(",", ":")).encode("ascii")
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode("ascii") + data

    def _head(self, method: str, call: str) -> str:
        address = self.address
        # A call beside the API's path, such as /rerank of some servers, begins with two slashes.
        path = call[1:] if call.startswith("//") else address.path + call
        return (
            f"{method} {path} HTTP/1.1\r\nHost: {address.authority}\r\n"
            f"User-Agent: heddle\r\nAccept-Encoding: identity\r\n"
            f"Accept: text/event-stream, application/json\r\n{self.key.header}"
            + ("Content-Type: application/json\r\n" if method == "POST" else "")
        )


def _absent_words(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "can't be reached: nothing listens there; is the server started?"
    if type(error).__name__ == "gaierror":
        return "can't be reached: there is no host of that name"
    return "can't be reached: the network refuses the connection"
