"""A plain asyncio pass-through: bytes from client to server and back, and nothing else.

One connection to the server for each of the client's, both kept open. No byte is looked at, so
this is the least that anything between the two can cost in Python.
"""

import asyncio
import sys

from benchmarks.contenders.cpu_clock import answer_cpu_questions


class Side(asyncio.Protocol):
    """One end of a relay; its bytes go to the other end."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send on what came before this end was there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        for data in self.early:
            transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Send it on."""
        other = self.other
        assert other is not None
        if other.transport is None:
            other.early.append(data)
        else:
            other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other end."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Client(Side):
    """The client's end: it opens the server's."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the other end."""
        super().connection_made(transport)
        server = self.other = Side()
        server.other = self
        loop = asyncio.get_running_loop()
        self.opening = loop.create_task(
            loop.create_connection(lambda: server, "127.0.0.1", self.port)
        )


async def main(port: int) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(port), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    answer_cpu_questions()
    asyncio.run(main(int(sys.argv[1])))
