"""Clients that ask for streams over HTTP, each as soon as its last one has ended."""

import asyncio
import json
import time
from dataclasses import dataclass, field

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


@dataclass
class Client(asyncio.Protocol):
    """One connection, which asks `left` times."""

    asking: Asking
    left: int
    done: "asyncio.Future[None]"
    firsts: list[float] = field(default_factory=list)
    started_s: float = 0.0
    has_token: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Note the first token; at the end of a stream ask again."""
        if not self.has_token and self.asking.token_marker in data:
            self.has_token = True
            self.firsts.append(time.perf_counter() - self.started_s)
        if data.endswith(END):
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail where there was more to ask."""
        if not self.done.done():
            self.done.set_exception(ConnectionError("a stream was cut"))

    def _ask(self) -> None:
        if not self.left:
            self.done.set_result(None)
            self.transport.close()
            return
        self.left -= 1
        self.has_token, self.started_s = False, time.perf_counter()
        self.transport.write(self.asking.request)


async def _run(asking: Asking, streams: int, each: int, spread_s: float) -> list[float]:
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(streams):
        client = Client(asking, each, loop.create_future())
        await loop.create_connection(lambda client=client: client, "127.0.0.1", asking.port)
        clients.append(client)
        await asyncio.sleep(spread_s / streams)
    await asyncio.gather(*(client.done for client in clients))
    firsts = [seconds for client in clients for seconds in client.firsts]
    assert len(firsts) == streams * each, "a stream had no token"
    return firsts


def first_tokens_s(asking: Asking, streams: int, each: int, spread_s: float) -> list[float]:
    """Return the time to the first token of each stream [s].

    Args:
        asking: what is asked.
        streams: clients at once.
        each: streams of each client, one after another.
        spread_s: from the first client's start to the last one's [s].
    """
    return asyncio.run(_run(asking, streams, each, spread_s))
