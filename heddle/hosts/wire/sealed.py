"""Messages between two machines: pickles in sealed records, which no stranger can make or change.

A record is its length and whether the message goes on behind it (4 bytes), a part of a pickle, and
a seal: a keyed BLAKE2b (RFC 7693) over its number in the stream, the head and the part. Each
direction has a key of its own, made for this connection (`handshake.py`). So a record that was
changed, cut, repeated, left out, or taken from the other direction or another connection has a
wrong seal, and the channel is broken before a byte of it is decoded. Seals don't hide what is sent.
"""

import hmac
import pickle
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from heddle.hosts.wire.framing import ChannelBroken, MessageTooLarge, Packet, pickled

RECORD_BYTES_MAX: Final = 1 << 20  # all that is kept of what hasn't proved itself yet
MESSAGE_BYTES_MAX: Final = 1 << 30
KEY_BYTES: Final = 32
SEAL_BYTES: Final = 32
_HEAD: Final = struct.Struct("<I")
_NUMBER: Final = struct.Struct("<Q")
_GOES_ON: Final = 1 << 31
_STATE: Final = struct.Struct(f"<{KEY_BYTES}s{KEY_BYTES}sQQ")
STATE_BYTES: Final = _STATE.size


class SealState(NamedTuple):
    """One end of a sealed stream: its keys, and the records so far in each direction."""

    sending_key: bytes
    receiving_key: bytes
    sent: int = 0
    received: int = 0

    def to_bytes(self) -> bytes:
        """Return it as STATE_BYTES bytes."""
        return _STATE.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "SealState":
        """Return what `to_bytes` was called on."""
        return cls(*_STATE.unpack(data))


class Sealed:
    """Satisfies Framing, on a stream that others may read and write.

    Args:
        state: the keys; the stream may have begun.
        message_bytes_max: how long a pickled message may be.

    Mutates: `seal` and `feed` count the records; `feed` keeps what is not whole yet.
    """

    def __init__(self, state: SealState, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.message_bytes_max: float = message_bytes_max
        self._sent = _Seals(state.sending_key, state.sent)
        self._received = _Seals(state.receiving_key, state.received)
        self._pending = bytearray()  # less than a record, unproved
        self._message = bytearray()  # the parts of a message that have proved themselves
        self._problem = ""

    @property
    def received(self) -> int:
        """The records that have come and have proved themselves."""
        return self._received.number

    @property
    def state(self) -> SealState:
        """The state between two messages, for another process that takes the stream over.

        Raises: ChannelBroken: part of a message has been read already.
        """
        if self._pending or self._message:
            raise ChannelBroken("more was sent than the stream's other end had asked for")
        sent, received = self._sent, self._received
        return SealState(sent.key, received.key, sent.number, received.number)

    def encode(self, message: object) -> Packet:
        """Return a message's pickle."""
        body = pickled(message)
        if len(body) > self.message_bytes_max:
            raise MessageTooLarge(
                f"it has {len(body):,} bytes, and a message between machines at most "
                f"{self.message_bytes_max:,.0f}"
            )
        return Packet(bytes(body), -1)

    def seal(self, data: bytes) -> bytes:
        """Return the records of a pickle."""
        if len(data) <= RECORD_BYTES_MAX:
            return self._record(data, 0)
        parts = [data[at : at + RECORD_BYTES_MAX] for at in range(0, len(data), RECORD_BYTES_MAX)]
        return b"".join(
            [*(self._record(part, _GOES_ON) for part in parts[:-1]), self._record(parts[-1], 0)]
        )

    def feed(self, chunk: memoryview, fds: Sequence[int]) -> list[object]:
        """Return the messages that are whole now, in order."""
        if self._problem:
            raise ChannelBroken(self._problem)
        if not self._pending:
            messages, used = self._open(chunk)
            self._pending += chunk[used:]
            return messages
        self._pending += chunk
        with memoryview(self._pending) as pending:
            messages, used = self._open(pending)
        del self._pending[:used]
        return messages

    def close(self) -> None:
        """Do nothing: no descriptor comes from another machine."""

    def _record(self, part: bytes, flags: int) -> bytes:
        head = _HEAD.pack(len(part) | flags)
        seal = self._sent.of_next(head, part)
        self._sent.number += 1
        return b"".join((head, part, seal))

    def _open(self, data: memoryview) -> tuple[list[object], int]:
        """Return the messages that end in these bytes, and how many bytes were used."""
        messages: list[object] = []
        start = 0
        while len(data) - start >= _HEAD.size:
            (word,) = _HEAD.unpack_from(data, start)
            length, goes_on = word & ~_GOES_ON, bool(word & _GOES_ON)
            if length > RECORD_BYTES_MAX or len(self._message) + length > self.message_bytes_max:
                raise self._broken("is longer than any may be")
            body = start + _HEAD.size
            end = body + length + SEAL_BYTES
            if len(data) < end:
                break
            self._prove(data[start:body], data[body : body + length], data[body + length : end])
            start = end
            if not goes_on and not self._message:  # as nearly all are
                messages.append(pickle.loads(data[body : body + length]))
                continue
            self._message += data[body : body + length]
            if not goes_on:
                message, self._message = self._message, bytearray()
                messages.append(pickle.loads(message))
        return messages, start

    def _prove(self, head: memoryview, part: memoryview, seal: memoryview) -> None:
        """Count a record, or refuse it."""
        if not hmac.compare_digest(self._received.of_next(head, part), seal):
            raise self._broken("has a wrong seal")
        self._received.number += 1

    def _broken(self, what: str) -> ChannelBroken:
        self._problem = f"record {self.received} {what}: somebody else wrote into the stream"
        return ChannelBroken(self._problem)


class _Seals:
    """The seals of one direction. Of small records, as most are, an HMAC would take twice as long.

    Mutates: its caller counts `number` up, once for each record that was sent or proved.
    """

    def __init__(self, key: bytes, number: int) -> None:
        self.key = key
        self.number = number
        self._keyed = blake2b(key=key, digest_size=SEAL_BYTES)

    def of_next(self, head: bytes | memoryview, part: bytes | memoryview) -> bytes:
        """Return the seal that is right for the next record."""
        seal = self._keyed.copy()
        seal.update(b"".join((_NUMBER.pack(self.number), head, part)))
        return seal.digest()
