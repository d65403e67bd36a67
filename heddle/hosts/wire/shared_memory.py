"""Messages between two processes of one machine; big arrays travel as shared memory.

A message is a header, the sizes of its shared buffers, and a pickle (protocol 5). Buffers over
INLINE_BYTES_MAX, and a pickle that is longer itself, lie in one nameless memory file whose
descriptor rides along with the message: the kernel frees it when the last holder is gone, so
nothing can be left behind, whichever side dies first. The receiver copies out of it, so that a
result that lives long holds no descriptor. The socket itself carries little, so a small message
never waits for a big one to be read.
"""

import errno
import math
import os
import pickle
import struct
import tempfile
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from heddle.hosts.wire.framing import ChannelClosed, Packet, pickled

INLINE_BYTES_MAX: Final = 64 * 1024
NO_MORE_FDS: Final = (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS)
_HEADER: Final = struct.Struct("<QI")  # bytes of the pickle (0: the first buffer is it), buffers


def encode(message: object, *, inline: bool = False) -> Packet:
    """Return a message as bytes and, unless `inline`, a descriptor for its big buffers.

    Raises: any error of pickle, for an object that can't be pickled.
    """
    shared: list[memoryview] = []

    def keep_inline(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if inline or view.nbytes <= INLINE_BYTES_MAX:
            return True
        shared.append(view)
        return False

    body = pickled(message, keep_inline)
    if not inline and len(body) > INLINE_BYTES_MAX:
        shared.insert(0, body)
        body = memoryview(b"")
    head = _HEADER.pack(len(body), len(shared))
    if not shared:
        return Packet(head + body, -1)
    try:
        fd = _memory_file(shared)
    except OSError as error:
        if error.errno not in NO_MORE_FDS:
            raise
        return encode(message, inline=True)
    sizes = struct.pack(f"<{len(shared)}Q", *(view.nbytes for view in shared))
    return Packet(head + sizes + body, fd)


class SharedMemory:
    """Satisfies Framing, on a UNIX socket: both ends are this user's own, so nothing is sealed.

    Mutates: `feed` keeps what is not whole yet, and the descriptors of messages to come.
    """

    message_bytes_max = math.inf

    def __init__(self) -> None:
        self._pending = bytearray()
        self._fds: deque[int] = deque()

    def encode(self, message: object) -> Packet:
        """Return a message as bytes, and a descriptor for its big buffers."""
        return encode(message)

    def seal(self, data: bytes) -> bytes:
        """Return the bytes as they are."""
        return data

    def feed(self, chunk: memoryview, fds: Sequence[int]) -> list[object]:
        """Return the whole messages in what is pending plus this chunk, and keep the rest."""
        self._fds.extend(fds)
        if not self._pending:
            messages, used = self._parse(chunk)
            self._pending += chunk[used:]
            return messages
        self._pending += chunk
        with memoryview(self._pending) as pending:
            messages, used = self._parse(pending)
        del self._pending[:used]
        return messages

    def close(self) -> None:
        """Close the descriptors of unread messages."""
        while self._fds:
            os.close(self._fds.popleft())

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
                with data[body : body + length] as inside:
                    messages.append(pickle.loads(inside, buffers=shared))
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
