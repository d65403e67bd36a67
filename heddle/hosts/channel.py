"""Messages between two processes over one stream socket; big arrays travel as shared memory.

A message is a header, the sizes of its shared buffers, and a pickle (protocol 5). Buffers over
INLINE_BYTES_MAX, and a pickle that is longer itself, lie in one nameless memory file whose
descriptor rides along with the message: the kernel frees it when the last holder is gone, so
nothing can be left behind, whoever dies first. The receiver copies out of it, so that a result
that lives long holds no descriptor. The socket itself carries little, so a small message never
waits for a big one to be read.
"""

import array
import contextlib
import errno
import io
import math
import os
import pickle
import select
import socket
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

INLINE_BYTES_MAX = 64 * 1024
RECEIVE_BYTES = 256 * 1024
_FDS_MAX = 16
_HEADER = struct.Struct("<QI")  # bytes of the pickle (0: the first buffer is it), buffers
_FD = array.array("i").itemsize
_NO_MORE_FDS = (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS)


class ChannelClosed(Exception):
    """The other side is gone."""


class Packet(NamedTuple):
    """An encoded message; `fd` holds its shared buffers, -1 = none."""

    data: bytes
    fd: int


def _read_only(values: dict[object, object]) -> Mapping[object, object]:
    return MappingProxyType(values)


class _Pickler(pickle.Pickler):
    # The default `features` of a Frame is a read-only view of a dict, which pickle refuses.
    dispatch_table = MappingProxyType({MappingProxyType: lambda view: (_read_only, (dict(view),))})


def encode(message: object, *, inline: bool = False) -> Packet:
    """Return a message as bytes and, unless `inline`, a descriptor for its big buffers.

    Raises: whatever pickle raises for an object that can't be pickled.
    """
    shared: list[memoryview] = []

    def keep_inline(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if inline or view.nbytes <= INLINE_BYTES_MAX:
            return True
        shared.append(view)
        return False

    body = io.BytesIO()
    _Pickler(body, protocol=5, buffer_callback=keep_inline).dump(message)
    pickled = body.getbuffer()
    if not inline and len(pickled) > INLINE_BYTES_MAX:
        shared.insert(0, pickled)
        pickled = memoryview(b"")
    head = _HEADER.pack(len(pickled), len(shared))
    if not shared:
        return Packet(head + pickled, -1)
    try:
        fd = _memory_file(shared)
    except OSError as error:
        if error.errno not in _NO_MORE_FDS:
            raise
        return encode(message, inline=True)
    sizes = struct.pack(f"<{len(shared)}Q", *(view.nbytes for view in shared))
    return Packet(head + sizes + pickled, fd)


class Channel:
    """One end of the socket. Sending is safe from several threads; receiving is for one.

    Mutates: `push`, `flush` and `send` share a tail of bytes that the socket did not take yet.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)  # single calls ask for non-blocking with MSG_DONTWAIT
        self._socket = sock
        self._lock = threading.Lock()
        self._tail = memoryview(b"")  # what the socket did not take yet ...
        self._tail_fd = -1  # ... and the descriptor that goes with its first byte
        self._chunk = bytearray(RECEIVE_BYTES)
        self._pending = bytearray()
        self._fds: deque[int] = deque()
        self._bell: tuple[socket.socket, socket.socket] | None = None

    def fileno(self) -> int:
        """Return the socket's descriptor, for polling."""
        return self._socket.fileno()

    @property
    def has_tail(self) -> bool:
        """Whether a pushed message is not wholly in the socket yet: poll for POLLOUT and flush."""
        return len(self._tail) > 0

    def push(self, message: object) -> None:
        """Send without ever blocking; what doesn't fit becomes the tail. The tail must be empty.

        Raises: ChannelClosed; whatever pickle raises.
        """
        packet = encode(message)
        with self._lock:
            assert not self.has_tail, "pushed onto a tail"
            self._tail, self._tail_fd = memoryview(packet.data), packet.fd
            self._write(socket.MSG_DONTWAIT)

    def flush(self) -> None:
        """Send more of the tail without blocking. Raises: ChannelClosed."""
        with self._lock:
            self._write(socket.MSG_DONTWAIT)

    def send(self, message: object) -> None:
        """Send and wait until the socket has taken all of it. Raises: ChannelClosed."""
        packet = encode(message)
        with self._lock:
            self._tail, self._tail_fd = memoryview(packet.data), packet.fd
            while self.has_tail:
                self._write(0)

    def receive(self, *, wait_s: float = 0.0) -> list[object]:
        """Return the messages that have arrived whole; may be empty.

        Args:
            wait_s: how long to wait for the first bytes, or for the bell [s]; inf = until then.
        Raises: ChannelClosed: the other side is gone and all it sent has been returned before.
        """
        messages: list[object] = []
        if wait_s > 0:
            self._wait(wait_s)
        while True:
            try:
                count, has_fds = self._read()
            except (BlockingIOError, InterruptedError):
                return messages
            except ChannelClosed:
                if messages:
                    return messages  # the next call meets the end again
                raise
            with memoryview(self._chunk) as chunk:
                messages += self._decode(chunk[:count])
            # A short read found the socket empty, but for one that stopped at a descriptor.
            if count < RECEIVE_BYTES and not has_fds:
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
        """Tell the other side that nothing more comes; what it sent can still be received."""
        with contextlib.suppress(OSError):  # it hung up first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket and what came with unread messages."""
        with self._lock:
            self._socket.close()
            self._drop_tail_fd()
            self._tail = memoryview(b"")
        for end in self._bell or ():
            end.close()
        while self._fds:
            os.close(self._fds.popleft())

    def _wait(self, wait_s: float) -> None:
        """Wait until something can be read or the bell has rung, or the time is over."""
        arrivals = select.poll()
        arrivals.register(self._socket, select.POLLIN)
        if self._bell is not None:
            arrivals.register(self._bell[0], select.POLLIN)
        ready = {fd for fd, _ in arrivals.poll(None if math.isinf(wait_s) else wait_s * 1e3)}
        if self._bell is not None and self._bell[0].fileno() in ready:
            self._bell[0].recv(RECEIVE_BYTES)

    def _read(self) -> tuple[int, bool]:
        """Read a chunk and the descriptors that came with it; return its size and if any did."""
        try:
            count, ancillary, outcome, _ = self._socket.recvmsg_into(
                [self._chunk], socket.CMSG_SPACE(_FDS_MAX * _FD), socket.MSG_DONTWAIT
            )
        except (BlockingIOError, InterruptedError):
            raise
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds = array.array("i")
                fds.frombytes(data[: len(data) - len(data) % _FD])
                self._fds.extend(fds)
        if count == 0:
            raise ChannelClosed("end of stream")
        if outcome & socket.MSG_CTRUNC:
            raise ChannelClosed("descriptors were lost: raise the limit on open files (ulimit -n)")
        return count, bool(ancillary)

    def _write(self, flags: int) -> None:
        """Hand the tail to the socket; the lock is held."""
        if not self.has_tail:
            return
        try:
            if self._tail_fd >= 0:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._tail_fd]))
                count = self._socket.sendmsg([self._tail], [rights], flags)
            else:
                count = self._socket.send(self._tail, flags)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            if error.errno in _NO_MORE_FDS:
                return  # too many descriptors are on their way: as if the socket were full
            raise ChannelClosed(str(error)) from error
        self._drop_tail_fd()
        self._tail = self._tail[count:]

    def _drop_tail_fd(self) -> None:
        if self._tail_fd >= 0:
            os.close(self._tail_fd)
            self._tail_fd = -1

    def _decode(self, chunk: memoryview) -> list[object]:
        """Return the whole messages in what is pending plus this chunk, and keep the rest."""
        if not self._pending:
            messages, used = self._parse(chunk)
            self._pending += chunk[used:]
            return messages
        self._pending += chunk
        with memoryview(self._pending) as pending:
            messages, used = self._parse(pending)
        del self._pending[:used]
        return messages

    def _parse(self, data: memoryview) -> tuple[list[object], int]:
        messages: list[object] = []
        start = 0
        while len(data) - start >= _HEADER.size:
            length, buffers = _HEADER.unpack_from(data, start)
            body = start + _HEADER.size + 8 * buffers
            if len(data) < body + length:
                break
            shared: tuple[memoryview, ...] = ()
            if buffers:
                sizes = struct.unpack_from(f"<{buffers}Q", data, start + _HEADER.size)
                shared = _read_memory_file(self._fds.popleft(), sizes)
            if length:
                with data[body : body + length] as pickled:
                    messages.append(pickle.loads(pickled, buffers=shared))
            else:
                messages.append(pickle.loads(shared[0], buffers=shared[1:]))
            start = body + length
        return messages, start


def _memory_file(views: list[memoryview]) -> int:
    """Return the descriptor of a nameless file that holds these buffers one after another."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("heddle", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        offset = 0
        for view in views:
            flat = view.cast("B")
            done = 0
            while done < flat.nbytes:
                done += os.pwrite(fd, flat[done:], offset + done)
            offset += flat.nbytes
    except BaseException:
        os.close(fd)
        raise
    return fd


def _read_memory_file(fd: int, sizes: tuple[int, ...]) -> tuple[memoryview, ...]:
    """Return copies of the buffers in a memory file, and close it."""
    try:
        views = []
        offset = 0
        for size in sizes:
            view = np.empty(size, np.uint8).data
            done = 0
            while done < size:
                count = os.preadv(fd, [view[done:]], offset + done)
                if count == 0:
                    raise ChannelClosed(f"shared memory holds {done} of {size} bytes")
                done += count
            offset += size
            views.append(view)
        return tuple(views)
    finally:
        os.close(fd)
