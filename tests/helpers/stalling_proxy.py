"""A TCP proxy that can stop forwarding without closing anything: a half-open link."""

import contextlib
import select
import socket
import threading
from typing import Self

from heddle.hosts.nodes.address import Address


class StallingProxy:
    """Forwards connections to an address until `stall`; from then on bytes go nowhere."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self._bell, self._rope = socket.socketpair()
        self._is_stalled = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rope.close()
        self._thread.join()
        for sock in (self._listener, self._bell, *(end for pair in self._pairs for end in pair)):
            sock.close()

    def stall(self) -> None:
        """Leave all connections open and forward nothing more; new ones are never answered."""
        self._is_stalled.set()

    def _run(self) -> None:
        ways: dict[socket.socket, socket.socket] = {}
        while True:
            ready, _, _ = select.select([self._listener, self._bell, *ways], [], [])
            for sock in ready:
                if sock is self._bell:
                    return
                if sock is self._listener:
                    one, _ = sock.accept()
                    other = socket.create_connection(self._target)
                    self._pairs.append((one, other))
                    if not self._is_stalled.is_set():
                        ways |= {one: other, other: one}
                elif self._is_stalled.is_set():
                    ways.pop(sock, None)  # what it sends stays in its socket
                else:
                    _forward(sock, ways)


def _forward(sock: socket.socket, ways: dict[socket.socket, socket.socket]) -> None:
    other = ways[sock]
    data = b""
    with contextlib.suppress(OSError):
        data = sock.recv(1 << 16)
        other.sendall(data)
    if not data:
        ways.pop(sock)
        ways.pop(other, None)
        for end in (sock, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
