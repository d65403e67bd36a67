"""Clients that ask for streams over HTTP, each as soon as its last one has ended."""

import asyncio
import json
import time
from dataclasses import dataclass, field

STREAM = b"HTTP/1.1 200"
END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Asking:
    """What a client sends, and how it knows the first token."""

    port: int
    path: str
    body: dict[str, object]
    token_marker: bytes

    @property
    def request(self) -> bytes:
        """The whole request."""
        data = json.dumps(self.body).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


@dataclass(frozen=True)
class Heard:
    """One stream as its client heard it.

    Args:
        first_s: from the request to the first token [s].
        whole_s: from the request to the end of the stream [s].
        data: all bytes of the reply, its head too.
    """

    first_s: float
    whole_s: float
    data: bytes

    @property
    def pieces(self) -> list[bytes]:
        """The body as it was sent: HTTP's chunks, without the last, empty one."""
        found, rest = [], self.data.partition(b"\r\n\r\n")[2]
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            end = int(size, 16)
            found.append(rest[:end])
            rest = rest[end + 2 :]
        return found[:-1]


@dataclass
class Client(asyncio.Protocol):
    """One connection, which asks `left` times."""

    asking: Asking
    left: int
    done: "asyncio.Future[None]"
    streams: list[Heard] = field(default_factory=list)
    started_s: float = 0.0
    first_s: float | None = None
    data: bytearray = field(default_factory=bytearray)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Note the first token; at the end of a stream ask again."""
        self.data += data
        if not self.data.startswith(STREAM):  # an error has no end that `END` would find
            self.done.set_exception(ConnectionError(f"no stream: {bytes(self.data[:300])!r}"))
            self.transport.abort()
            return
        if self.first_s is None and self.asking.token_marker in data:
            self.first_s = time.perf_counter() - self.started_s
        if data.endswith(END):
            self._note()
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail where there was more to ask."""
        if not self.done.done():
            self.done.set_exception(ConnectionError("a stream was cut"))

    def _note(self) -> None:
        whole_s = time.perf_counter() - self.started_s
        assert self.first_s is not None, f"a stream had no token: {bytes(self.data[:300])!r}"
        self.streams.append(Heard(self.first_s, whole_s, bytes(self.data)))

    def _ask(self) -> None:
        if not self.left:
            self.done.set_result(None)
            self.transport.close()
            return
        self.left -= 1
        self.data.clear()
        self.first_s, self.started_s = None, time.perf_counter()
        self.transport.write(self.asking.request)


async def _run(asking: Asking, streams: int, each: int, spread_s: float) -> list[Heard]:
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(streams):
        client = Client(asking, each, loop.create_future())
        await loop.create_connection(lambda client=client: client, "127.0.0.1", asking.port)
        clients.append(client)
        await asyncio.sleep(spread_s / streams)
    await asyncio.gather(*(client.done for client in clients))
    return [heard for client in clients for heard in client.streams]


def heard_streams(asking: Asking, streams: int, each: int, spread_s: float) -> list[Heard]:
    """Run clients and return what they heard, stream by stream.

    Args:
        asking: what is asked.
        streams: clients at once.
        each: streams of each client, one after another.
        spread_s: from the first client's start to the last one's [s].
    """
    return asyncio.run(_run(asking, streams, each, spread_s))
