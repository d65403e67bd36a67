"""A node's agent: starts lanes for servers that have the cluster's secret, and watches over them.

It listens on one port. A thread belongs to each connection: it compares secrets before anything is
decoded, and closes what doesn't prove itself in time. The lane's own connection is handed to the
lane's process with its seals, so frames never pass through here. A lane ends with its server: when
the server hangs up, when it has been silent for too long, when it asks for the same lane again, and
with the agent, however that ends.
"""

import contextlib
import logging
import math
import os
import queue
import select
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Self

from heddle.core.errors import ConfigError
from heddle.hosts.devices import numa_nodes
from heddle.hosts.lane_process import ProcessGroup
from heddle.hosts.machine import read_machine
from heddle.hosts.nodes.address import Address, tune
from heddle.hosts.nodes.messages import (
    AskFacts,
    Awaited,
    Ended,
    HoldAgent,
    JoinLane,
    Kill,
    LaneReport,
    NodeReport,
    Refused,
    Started,
    StartLane,
    build,
)
from heddle.hosts.process_progress import progress_s
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelClosed
from heddle.hosts.wire.handshake import answer
from heddle.hosts.wire.sealed import Sealed

CONNECTIONS_MAX: Final = 256  # two for each lane
FIRST_WORD_S_MAX: Final = 10.0  # from a proof to the first message, and from a lane to its own
LEAVE_S_MAX: Final = 3.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _LaneSocket:
    """A lane's own connection, on its way to the lane's process."""

    sock: socket.socket
    seals: bytes


@dataclass(slots=True, eq=False)
class _Keeper:
    """A lane of this node, which a thread watches over; any thread may kill it.

    `sockets` brings its own connection.

    Mutates: `hold` and `let_go` say between which moments there is a process to kill.
    """

    wanted: StartLane
    sockets: "queue.Queue[_LaneSocket]" = field(default_factory=lambda: queue.Queue(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_over: bool = False
    _group: ProcessGroup | None = None

    def hold(self, group: ProcessGroup) -> None:
        """Note the lane's process; it is killed at once where the lane is over already."""
        with self._lock:
            self._group = group
        if self._is_over:
            self.kill()

    def kill(self) -> None:
        """Kill the lane's process and its children, now or once it is there."""
        with self._lock:
            self._is_over = True
            if self._group is not None:
                self._group.kill()

    def let_go(self) -> None:
        """Note that the process is about to be forgotten by the system: its id may be reused."""
        with self._lock:
            self._group = None


class Agent:
    """Listens at once; `close` ends it with all its lanes.

    Args:
        name: of the node, for people.
        address: where to listen; port 0 = any that is free.
        secret: the cluster's.

    Raises:
        ConfigError: it can't listen there.
    """

    def __init__(self, name: str, address: Address, secret: bytes) -> None:
        self._name = name
        self._secret = secret
        self._lock = threading.Lock()  # guards what follows, up to the blank line
        self._keepers: dict[bytes, _Keeper] = {}  # by ticket
        self._connections: set[socket.socket] = set()
        self._is_closed = False
        self._held, self._released = threading.Event(), threading.Event()

        try:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            self._listener = socket.create_server(address, family=family, backlog=64)
        except OSError as error:
            raise ConfigError(f"listen: the agent can't listen at {address} ({error})") from error
        self.address = Address(*self._listener.getsockname()[:2])
        self._thread = threading.Thread(target=self._accept, name="agent", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Return the agent, which listens."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Kill the lanes, hang up, and stop listening. Can be called twice."""
        with self._lock:
            self._is_closed = True
            keepers, sockets = list(self._keepers.values()), list(self._connections)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for keeper in keepers:
            keeper.kill()
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def wait_released(self, hold_s_max: float) -> None:
        """Wait until the server that holds this agent lets go, or none has within the time [s]."""
        if self._held.wait(hold_s_max):
            self._released.wait()

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                _log.exception("agent: a connection could not be taken")
                time.sleep(0.1)  # out of descriptors, perhaps: those of others are freed meanwhile
                continue
            with self._lock:
                is_taken = not self._is_closed and len(self._connections) < CONNECTIONS_MAX
                if is_taken:
                    self._connections.add(sock)
            if not is_taken:
                _log.warning("agent: %s is turned away: too many connections", peer[0])
                sock.close()
                continue
            try:
                threading.Thread(target=self._welcome, args=(sock, peer[0]), daemon=True).start()
            except RuntimeError as error:  # the system has no thread left: others end meanwhile
                _log.warning("agent: %s is turned away: %s", peer[0], error)
                with self._lock:
                    self._connections.discard(sock)
                sock.close()

    def _welcome(self, sock: socket.socket, peer: str) -> None:
        """Serve one connection to its end."""
        try:
            with sock:
                framing = Sealed(answer(sock, self._secret))
                tune(sock)
                self._serve(sock, framing)
        except (OSError, ChannelClosed) as error:
            _log.warning("agent: a connection from %s ended: %s", peer, error)
        except (queue.Empty, queue.Full):
            _log.warning("agent: %s asked for a lane and did not connect to it", peer)
        except Exception:
            _log.exception("agent: a connection from %s failed", peer)
        finally:
            with self._lock:
                self._connections.discard(sock)

    def _serve(self, sock: socket.socket, framing: Sealed) -> None:
        channel = Channel(sock, framing)
        match _first(channel):
            case AskFacts():
                channel.send(self._report())
            case HoldAgent():
                self._be_held(channel)
            case StartLane() as wanted:
                self._keep(channel, wanted)
            case JoinLane(ticket=ticket):
                with self._lock:
                    keeper = self._keepers.get(ticket)
                if keeper is not None:
                    seals = framing.state.to_bytes()
                    keeper.sockets.put_nowait(_LaneSocket(sock.dup(), seals))

    def _report(self) -> NodeReport:
        machine = read_machine()
        cores = tuple(cpus for _, cpus in numa_nodes(machine.cpus))
        return NodeReport(self._name, build(), machine, cores)

    def _be_held(self, channel: Channel) -> None:
        """Wait until the server hangs up; a dead link is the kernel's to notice (`tune`)."""
        self._held.set()
        try:
            while True:
                channel.receive(wait_s=math.inf)
        finally:
            self._released.set()

    def _keep(self, channel: Channel, wanted: StartLane) -> None:
        """Start a lane and watch over it until it ends or its server is gone."""
        if wanted.build != build():
            channel.send(Refused(f"it runs {build()}, and the server {wanted.build}"))
            return
        usable = os.sched_getaffinity(0)
        if not usable.issuperset(wanted.body.cpus):
            channel.send(
                Refused(f"cores {wanted.body.cpus} are wanted, it may use {sorted(usable)}")
            )
            return
        keeper = _Keeper(wanted)
        with self._lock:
            if self._is_closed:
                return
            older = [k for k in self._keepers.values() if _is_same_lane(k.wanted, wanted)]
            self._keepers[wanted.ticket] = keeper
        for other in older:
            other.kill()
        try:
            self._run(channel, keeper)
        finally:
            with self._lock:
                del self._keepers[wanted.ticket]

    def _run(self, channel: Channel, keeper: _Keeper) -> None:
        wanted = keeper.wanted
        channel.send(Awaited())
        own = keeper.sockets.get(timeout=FIRST_WORD_S_MAX)  # queue.Empty: it never came
        with own.sock:
            try:
                group = ProcessGroup(wanted.body, own.sock.fileno(), own.seals)
            except OSError as error:
                channel.send(Refused(f"its process could not be started: {error}"))
                return
        keeper.hold(group)
        name = wanted.body.name
        _log.info("agent: lane %s started as process %d", name, group.pid)
        try:
            channel.send(Started(group.pid))
            _watch(channel, wanted, group.pid)
            keeper.kill()  # what the lane may have started goes with it
        except ChannelClosed as error:  # the lane sees its own connection close, and leaves
            _log.warning("agent: the server of lane %s is gone: %s", name, error)
        except BaseException:
            keeper.kill()
            raise
        finally:
            keeper.let_go()
            how = group.wait(LEAVE_S_MAX)
            _log.info("agent: lane %s ended: %s", name, how)
            with contextlib.suppress(ChannelClosed):
                channel.send(Ended(how))


def _first(channel: Channel) -> object:
    """Return the first message of a connection; None = there is none in time, or more than one."""
    until_s = time.monotonic() + FIRST_WORD_S_MAX
    while (left_s := until_s - time.monotonic()) > 0:
        messages = channel.receive(wait_s=left_s)
        if messages:
            return messages[0] if len(messages) == 1 else None
    return None


def _watch(channel: Channel, wanted: StartLane, pid: int) -> None:
    """Report on a lane's process until it has ended or has to be killed.

    Raises: ChannelClosed: the server hung up.
    """
    heard_s = next_s = time.monotonic()
    ended = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(channel, select.POLLIN)
        poller.register(ended, select.POLLIN)
        while True:
            ready = poller.poll(max(0.0, next_s - time.monotonic()) * 1e3)
            messages = channel.receive()  # before the clock: this process may have been stopped
            now_s = time.monotonic()
            if messages:
                heard_s = now_s
            if any(fd == ended for fd, _ in ready) or Kill() in messages:
                return
            if now_s - heard_s > wanted.silence_s_max:
                name = wanted.body.name
                _log.warning("agent: the server of lane %s is silent: it is killed", name)
                return
            if now_s >= next_s:
                channel.send(LaneReport(progress_s(pid)))
                next_s = now_s + wanted.heartbeat_s
    finally:
        os.close(ended)


def _is_same_lane(one: StartLane, other: StartLane) -> bool:
    return (one.owner, one.body.name) == (other.owner, other.body.name)
