"""A TCP proxy that can stop forwarding without closing anything: a half-open link."""

import contextlib
import select
import socket
import threading
from typing import Self

from heddle.hosts.nodes.address import Address

_STALL, _RESUME = b"s", b"r"


class StallingProxy:
    """Forwards connections to an address, but for the time between `stall` and `resume`.

    Attributes:
        target: where new connections lead.
        address: where it listens.
    """

    def __init__(self, target: Address) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self._bell, self._rope = socket.socketpair()
        self._applied = threading.Event()
        self._is_stalled = False
        self._ways: dict[socket.socket, socket.socket] = {}
        self._opened: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rope.close()
        self._thread.join()
        for sock in (self._listener, self._bell, *self._opened):
            sock.close()

    def stall(self) -> None:
        """Leave all connections open and forward nothing more; new ones are never answered."""
        self._order(_STALL)

    def resume(self) -> None:
        """Close the connections that are there, and forward new ones."""
        self._order(_RESUME)

    def _order(self, order: bytes) -> None:
        self._applied.clear()
        self._rope.send(order)
        self._applied.wait()

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._bell, *self._ways], [], [])
            if self._bell in ready:
                order = self._bell.recv(1)
                if not order:
                    return
                self._obey(order)
            elif self._listener in ready:
                self._accept()
            else:
                for sock in ready:
                    self._forward(sock)

    def _obey(self, order: bytes) -> None:
        self._ways.clear()
        self._is_stalled = order == _STALL
        if order == _RESUME:
            for sock in self._opened:
                sock.close()
            self._opened.clear()
        self._applied.set()

    def _accept(self) -> None:
        one, _ = self._listener.accept()
        self._opened.append(one)
        if self._is_stalled:
            return
        try:
            other = socket.create_connection(self.target)
        except OSError:  # nothing listens there: the caller is to see that
            one.close()
            return
        self._opened.append(other)
        self._ways |= {one: other, other: one}

    def _forward(self, sock: socket.socket) -> None:
        other = self._ways.get(sock)
        if other is None:  # its other end has just hung up
            return
        data = b""
        with contextlib.suppress(OSError):
            data = sock.recv(1 << 16)
            other.sendall(data)
        if not data:
            for end in (sock, other):
                self._ways.pop(end, None)
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
