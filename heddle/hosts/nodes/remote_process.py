"""A lane's process on another machine, as the server sees it."""

import contextlib
import secrets
import threading
import time
from typing import Final, TypeVar

from heddle.hosts.lane_process import Body
from heddle.hosts.nodes.address import Address, dial
from heddle.hosts.nodes.messages import (
    Awaited,
    Ended,
    JoinLane,
    Kill,
    LaneBody,
    LaneReport,
    Refused,
    ServerBeat,
    Started,
    StartLane,
    build,
)
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelClosed
from heddle.runtime.supervision import LaneLimits

T = TypeVar("T", Awaited, Started)
OWNER: Final = secrets.token_bytes(16)  # of this process's lanes, on all nodes
STARTED_S_MAX: Final = 15.0
KILLED_S_MAX: Final = 0.5  # a node that doesn't answer is not waited for: its lane's epoch is over


class RemoteProgress:
    """Satisfies Progress: what the agent reports of the lane's process.

    An agent that is cut off reports nothing, so its lane makes no progress as seen from here.
    """

    def __init__(self) -> None:
        self._newest_s = 0.0
        self._marked_s = 0.0

    def report(self, progress_s: float) -> None:
        """Note how long the process has computed or waited for a core since it began [s]."""
        self._newest_s = progress_s

    def mark(self) -> None:
        """Count from now."""
        self._marked_s = self._newest_s

    def seconds(self) -> float:
        """Return how much there was [s]."""
        return max(0.0, self._newest_s - self._marked_s)


class RemoteProcess:
    """Satisfies StartedLane, on a node whose agent starts it.

    A thread says every heartbeat that this server lives, and takes in what the agent reports.

    Args:
        spec: the lane's name, cores and threads; the cores are the node's.
        node: the node's name, for people.
        address: of the node's agent.
        secret: the cluster's.
        limits: the lane's.

    Raises:
        OSError: the agent can't be reached, has another secret, or can't start the lane.
    """

    def __init__(
        self, spec: Body, node: str, address: Address, secret: bytes, limits: LaneLimits
    ) -> None:
        self.place = node
        self.progress = RemoteProgress()
        self._heartbeat_s, self._silence_s_max = limits.heartbeat_s, limits.crowded_s_max
        self._ended = threading.Event()
        self._how = ""
        self._is_killed = False
        with contextlib.ExitStack() as opened:
            self._control = dial(address, secret)
            opened.callback(self._control.close)
            ticket = secrets.token_bytes(16)
            try:
                self._control.send(
                    StartLane(
                        ticket,
                        OWNER,
                        build(),
                        LaneBody(spec.name, spec.cpus, spec.threads),
                        limits.heartbeat_s,
                        limits.crowded_s_max,
                    )
                )
                self._await(Awaited)  # or the lane's connection could come before its name
                self.channel: Channel = dial(address, secret)
                opened.callback(self.channel.close)
                self.channel.send(JoinLane(ticket))
                self.pid = self._await(Started).pid
            except ChannelClosed as error:
                raise ConnectionError(f"node {node} hung up: {error}") from error
            opened.pop_all()
        self._thread = threading.Thread(target=self._attend, name=f"node-{spec.name}", daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Have the agent kill the process and its children; doesn't wait."""
        self._is_killed = True
        with contextlib.suppress(ChannelClosed):
            self._control.send(Kill())

    def wait(self, wait_s: float) -> str:
        """Wait until it is gone, killing it if it lingers beyond `wait_s`; say how it ended.

        A killed one is waited for only as long as an agent that can be reached takes to say so.
        """
        if not self._is_killed and not self._ended.wait(wait_s):
            self.kill()
        if self._is_killed:
            self._ended.wait(KILLED_S_MAX)
        self._control.hang_up()
        self._thread.join()
        self._control.close()
        return self._how or f"node {self.place} doesn't say how it ended"

    def _await(self, kind: type[T]) -> T:
        """Return the agent's answer of this kind.

        Raises: ConnectionError: it refuses, or doesn't answer; ChannelClosed: it hangs up.
        """
        until_s = time.monotonic() + STARTED_S_MAX
        while (left_s := until_s - time.monotonic()) > 0:
            for message in self._control.receive(wait_s=left_s):
                if isinstance(message, kind):
                    return message
                if isinstance(message, Refused):
                    raise ConnectionError(f"node {self.place} refused: {message.reason}")
        raise ConnectionError(f"node {self.place} did not start it within {STARTED_S_MAX:g} s")

    def _attend(self) -> None:
        """Exchange signs of life with the agent until one of both hangs up.

        An agent that is silent for as long as a crowded lane may be is gone, and its lane with it.
        """
        heard_s = next_s = time.monotonic()
        try:
            while True:
                now_s = time.monotonic()
                if now_s >= next_s:
                    self._control.send(ServerBeat())
                    next_s = now_s + self._heartbeat_s
                messages = self._control.receive(wait_s=max(0.001, next_s - now_s))
                heard_s = time.monotonic() if messages else heard_s
                for message in messages:
                    self._take_in(message)
                if time.monotonic() - heard_s > self._silence_s_max:
                    self._lose(f"node {self.place} was silent for {self._silence_s_max:g} s")
                    return
        except ChannelClosed as error:
            self._lose(f"the agent of node {self.place} is gone: {error}")

    def _take_in(self, message: object) -> None:
        match message:
            case LaneReport(progress_s=progress_s):
                self.progress.report(progress_s)
            case Ended(how=how):
                self._how = how
                self._ended.set()

    def _lose(self, how: str) -> None:
        """Give the lane up where its end hasn't been reported."""
        self._how = self._how or how
        self._ended.set()
        self.channel.hang_up()
