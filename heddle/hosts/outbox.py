"""Commands on their way to a lane: in its socket, gathered, or waiting until it can take them."""

from collections import deque
from collections.abc import Callable

from heddle.core.commands import Admit, LoadKv
from heddle.hosts.messages import ToEngine
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelClosed

BACKLOG_MAX = 16_384  # commands that wait for a lane which starts or doesn't read
GATHERED_MAX = 256  # commands that wait for the end of a turn


class Outbox:
    """What is sent to a lane; never blocks. Not safe by itself: the lane's lock guards it.

    Args:
        lane: the lane's name, for messages.
        ring: called when `send_next` has something to do.
        gather: has `flush` called at the end of the thread's turn; returns whether it is in one.
    """

    def __init__(self, lane: str, ring: Callable[[], None], gather: Callable[[], bool]) -> None:
        self._lane = lane
        self._ring = ring
        self._gather = gather
        self._is_gathering = False  # a `flush` will come
        self._gathered = 0
        self._channel: Channel | None = None
        self._backlog: deque[ToEngine] = deque()

    def connect(self, channel: Channel) -> None:
        """Send into this channel from now on."""
        self._channel = channel

    def disconnect(self) -> None:
        """Let everything wait: the lane has no process."""
        self._channel = None

    def clear(self) -> None:
        """Forget what waits."""
        self._backlog.clear()

    def put(self, message: ToEngine) -> str:
        """Send a message or let it wait; return why it can't be taken, or nothing."""
        channel = self._channel
        is_free = channel is not None and (self._is_gathering or not channel.has_tail)
        if channel is not None and is_free and not self._backlog:
            return self._push(channel, message)
        if len(self._backlog) >= BACKLOG_MAX and isinstance(message.command, Admit | LoadKv):
            return f"lane {self._lane} does not read: {len(self._backlog)} commands wait for it"
        self._backlog.append(message)
        self._ring()
        return ""

    def flush(self) -> None:
        """Send what was gathered, as far as the socket takes it."""
        self._is_gathering, self._gathered = False, 0
        if self._channel is None:
            return
        try:
            self._channel.flush()
        except ChannelClosed:
            return  # the lane's thread is about to see it, and fails the tasks
        if self._channel.has_tail:
            self._ring()

    def send_next(self) -> tuple[ToEngine, str] | None:
        """Send the oldest message that waits.

        Returns: it, and why it can't be sent, or nothing; None where none waits or the socket
            takes no more.

        Raises: ChannelClosed: the lane is gone.
        """
        channel = self._channel
        if channel is None:
            return None
        channel.flush()
        if channel.has_tail or not self._backlog:
            return None
        message = self._backlog.popleft()
        return message, self._push(channel, message)

    def _push(self, channel: Channel, message: ToEngine) -> str:
        try:
            channel.keep(message)
        except Exception as error:  # pickle lets anything through that an object's hooks raise
            return f"the task can't be sent to lane {self._lane}: {type(error).__name__}: {error}"
        self._is_gathering = self._is_gathering or self._gather()
        self._gathered += 1
        if not self._is_gathering or self._gathered == GATHERED_MAX:
            self.flush()
        return ""
