"""Messages between two processes over one stream socket, in the form of its framing."""

import array
import contextlib
import math
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice

from heddle.hosts.wire.framing import ChannelClosed, Framing
from heddle.hosts.wire.shared_memory import NO_MORE_FDS, SharedMemory

RECEIVE_BYTES = 256 * 1024
_FDS_MAX = 16
_PARTS_MAX = 256  # that one call takes; Linux allows 1,024
_FD = array.array("i").itemsize


class Channel:
    """One end of the socket. Sending is safe from several threads; receiving is for one.

    Args:
        sock: a connected stream socket.
        framing: the form of the messages; None = shared memory, which needs a UNIX socket.

    Mutates: `keep`, `flush` and `send` share a tail of bytes that the socket did not take yet.
    """

    def __init__(self, sock: socket.socket, framing: Framing | None = None) -> None:
        sock.setblocking(True)  # single calls ask for non-blocking with MSG_DONTWAIT
        self._socket = sock
        self._framing: Framing = SharedMemory() if framing is None else framing
        self._lock = threading.Lock()
        # What the socket did not take yet; a descriptor goes with the first byte of its part.
        self._tail: deque[tuple[memoryview, int]] = deque()
        self._chunk = bytearray(RECEIVE_BYTES)
        self._bell: tuple[socket.socket, socket.socket] | None = None

    def fileno(self) -> int:
        """Return the socket's descriptor, for polling."""
        return self._socket.fileno()

    @property
    def has_tail(self) -> bool:
        """Whether a message is not wholly in the socket yet: poll for POLLOUT and flush."""
        return bool(self._tail)

    @property
    def message_bytes_max(self) -> float:
        """How long a pickled message may be; inf = as long as it likes."""
        return self._framing.message_bytes_max

    def push(self, message: object) -> None:
        """Send without ever blocking; what doesn't fit becomes the tail.

        Raises: ChannelClosed, MessageTooLarge, and any error of pickle's.
        """
        self.keep(message)
        self.flush()

    def keep(self, message: object) -> None:
        """Append a message to the tail: the next `flush` sends it with its neighbours.

        Raises: MessageTooLarge, and any error of pickle's.
        """
        packet = self._framing.encode(message)
        with self._lock:
            self._tail.append((memoryview(self._framing.seal(packet.data)), packet.fd))

    def flush(self) -> None:
        """Send the tail, as far as that needs no waiting. Raises: ChannelClosed."""
        with self._lock:
            while self._tail and self._write(socket.MSG_DONTWAIT):
                pass

    def send(self, message: object) -> None:
        """Send and wait until the socket has taken all of it.

        Raises: ChannelClosed, MessageTooLarge, and any error of pickle's.
        """
        self.keep(message)
        with self._lock:
            while self._tail:
                self._write(0)

    def receive(self, *, wait_s: float = 0.0) -> list[object]:
        """Return the messages that have arrived whole; may be empty.

        Args:
            wait_s: how long to wait for the first bytes, or for the bell [s]; inf = until then.
        Raises: ChannelClosed: the other side is gone and all it sent has been returned before;
            ChannelBroken: what came can't be from the other side.
        """
        messages: list[object] = []
        if wait_s > 0:
            self._wait(wait_s)
        while True:
            try:
                count, fds = self._read()
            except (BlockingIOError, InterruptedError):
                return messages
            except ChannelClosed:
                if messages:
                    return messages  # the next call meets the end again
                raise
            with memoryview(self._chunk) as chunk:
                messages += self._framing.feed(chunk[:count], fds)
            # A short read found the socket empty, but for one that stopped at a descriptor.
            if count < RECEIVE_BYTES and not fds:
                return messages

    def bell(self) -> Callable[[], None]:
        """Return a function that makes a blocking `receive` return; any thread may call it."""
        if self._bell is None:
            self._bell = socket.socketpair()
            self._bell[1].setblocking(False)
        ringer = self._bell[1]

        def ring() -> None:
            with contextlib.suppress(BlockingIOError):  # it is full of rings already
                ringer.send(b"!")

        return ring

    def hang_up(self) -> None:
        """Shut the connection down both ways; messages in flight here can still be received."""
        with contextlib.suppress(OSError):  # it hung up first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket and what came with unread messages."""
        with self._lock:
            self._socket.close()
            while self._tail:
                _close_fd(self._tail.popleft()[1])
        for end in self._bell or ():
            end.close()
        self._framing.close()

    def _wait(self, wait_s: float) -> None:
        """Wait until something can be read or the bell has rung, or the time is over."""
        arrivals = select.poll()
        arrivals.register(self._socket, select.POLLIN)
        if self._bell is not None:
            arrivals.register(self._bell[0], select.POLLIN)
        ready = {fd for fd, _ in arrivals.poll(None if math.isinf(wait_s) else wait_s * 1e3)}
        if self._bell is not None and self._bell[0].fileno() in ready:
            self._bell[0].recv(RECEIVE_BYTES)

    def _read(self) -> tuple[int, list[int]]:
        """Read a chunk; return its size and the descriptors that came with it."""
        try:
            count, ancillary, outcome, _ = self._socket.recvmsg_into(
                [self._chunk], socket.CMSG_SPACE(_FDS_MAX * _FD), socket.MSG_DONTWAIT
            )
        except (BlockingIOError, InterruptedError):
            raise
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        fds = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[: len(data) - len(data) % _FD])
        if count == 0:
            raise ChannelClosed("end of stream")
        if outcome & socket.MSG_CTRUNC:
            for fd in fds:
                os.close(fd)
            raise ChannelClosed("descriptors were lost: raise the limit on open files (ulimit -n)")
        return count, list(fds)

    def _write(self, flags: int) -> bool:
        """Hand the beginning of the tail to the socket; the lock is held.

        Returns: whether all of that was taken.
        """
        parts, fd = [self._tail[0][0]], self._tail[0][1]
        for data, next_fd in islice(self._tail, 1, _PARTS_MAX):
            if next_fd >= 0:
                break
            parts.append(data)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
        try:
            count = self._socket.sendmsg(parts, rights, flags)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno in NO_MORE_FDS:
                return False  # too many descriptors are on their way: as if the socket were full
            raise ChannelClosed(str(error)) from error
        _close_fd(fd)
        for part in parts:
            self._tail.popleft()
            if count < len(part):
                self._tail.appendleft((part[count:], -1))
                return False
            count -= len(part)
        return True


def _close_fd(fd: int) -> None:
    if fd >= 0:
        os.close(fd)
