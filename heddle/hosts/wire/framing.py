"""What a channel asks of the form in which its messages travel."""

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelBroken(ChannelClosed):
    """What came is not what the other side can have sent: nothing more is read."""


class MessageTooLarge(ValueError):
    """A message has more bytes than the other side takes."""


class Packet(NamedTuple):
    """An encoded message; `fd` holds its shared buffers, -1 = none."""

    data: bytes
    fd: int


class Framing(Protocol):
    """The form of the messages of one channel."""

    @property
    def message_bytes_max(self) -> float:
        """How long a pickled message may be; inf = as long as it likes."""
        ...

    def encode(self, message: object) -> Packet:
        """Return a message as bytes; any thread may call it, in any order.

        Raises: MessageTooLarge; any error of pickle, for an object that can't be pickled.
        """
        ...

    def seal(self, data: bytes) -> bytes:
        """Return what goes into the socket for an encoded message; called in order of sending."""
        ...

    def feed(self, chunk: memoryview, fds: Sequence[int]) -> list[object]:
        """Take in the next bytes, and the descriptors that came with them.

        Returns: the messages that are whole now.
        Raises: ChannelBroken: the other side can't have sent these bytes.
        """
        ...

    def close(self) -> None:
        """Let go of what came with unread messages."""
        ...


def _read_only(values: dict[object, object]) -> Mapping[object, object]:
    return MappingProxyType(values)


class _Pickler(pickle.Pickler):
    # The default `features` of a Frame is a read-only view of a dict, which pickle refuses.
    dispatch_table = MappingProxyType({MappingProxyType: lambda view: (_read_only, (dict(view),))})


def pickled(
    message: object, keeps_inside: Callable[[pickle.PickleBuffer], bool] | None = None
) -> memoryview:
    """Return a message as a pickle.

    Args:
        message: any object that can be pickled.
        keeps_inside: whether a buffer goes into the pickle; None = all of them do.
    Raises: any error of pickle, for an object that can't be pickled.
    """
    body = io.BytesIO()
    _Pickler(body, protocol=5, buffer_callback=keeps_inside).dump(message)
    return body.getbuffer()
