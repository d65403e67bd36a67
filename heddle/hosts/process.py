"""A lane: engines in a process of their own, one EnginePort each.

(docs/design/architecture.md#lanes) One thread of the parent belongs to each lane. It starts the
process, reads its frames, notices that it died or hangs, and starts it again; the runtime's loop
only ever appends to a socket.
"""

import contextlib
import logging
import pickle
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from heddle.core.commands import Admit, Command, Release
from heddle.core.errors import (
    ConfigError,
    EngineError,
    HeddleError,
    InputError,
    InternalError,
    StorageError,
    Unreachable,
)
from heddle.core.frames import Failed, Frame
from heddle.core.printing.log_lines import log_format
from heddle.hosts.lane_process import LaneProcess, StartedLane
from heddle.hosts.lane_spec import LaneSpec
from heddle.hosts.lending.idle_flag import IdleFlag
from heddle.hosts.lending.lent_cores import with_flags
from heddle.hosts.messages import FromEngine, LaneReady, LaneStart, StartFailed, ToEngine
from heddle.hosts.outbox import Outbox
from heddle.hosts.process_port import ProcessPort
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelBroken, ChannelClosed
from heddle.runtime.supervision import (
    LANE_LOST,
    WHILE_STARTING,
    GiveUp,
    Heartbeat,
    LaneHealth,
    LaneLimits,
    LaneState,
    LaneSupervisor,
    lost_message,
    refused_message,
)
from heddle.runtime.turn_end import at_turn_end

_log = logging.getLogger(__name__)
_PLAIN_ERRORS: Mapping[str, type[HeddleError]] = {
    kind.__name__: kind
    for kind in (ConfigError, InputError, StorageError, Unreachable, InternalError)
}

Starter = Callable[[LaneSpec], StartedLane]


class ProcessLane:
    """A process that hosts engines, and the thread that watches over it.

    Args:
        spec: what the lane is made of.
        limits: when it counts as dead or hung, and how often it is restarted.
        start: starts its process, here or on another machine; an OSError is why it can't.
        flags: those that its spec names.
    Raises: ConfigError: the settings of an engine can't be pickled.

    The process starts at once; `wait_ready` raises what stopped it. A dead process is restarted
    without a call: tasks in flight fail with a message that starts with LANE_LOST, and what is
    sent meanwhile waits for the new epoch. A thread that fails itself leaves the lane FAILED, never
    unwatched.
    """

    def __init__(
        self,
        spec: LaneSpec,
        limits: LaneLimits | None = None,
        start: Starter = LaneProcess,
        flags: Sequence[IdleFlag] = (),
    ) -> None:
        self._spec = spec
        self._flags = flags  # they live as long as a process may open them
        self._start = start
        self._limits = limits or LaneLimits()
        self._pickled_spec = _pickled(spec)
        self._supervisor = LaneSupervisor(spec.name, self._limits)
        self._ports = tuple(ProcessPort(self, i, engine) for i, engine in enumerate(spec.engines))
        self._lock = threading.Lock()  # guards what follows, up to the blank line
        self._epoch = 1
        self._outbox = Outbox(spec.name, self._ring, lambda: at_turn_end(self._send_gathered))
        self._refusal = ""  # why tasks are refused; empty = they are taken
        self._is_away = False  # the lane is down as its engines can't reach the corpus

        self._pid: int | None = None
        self._place = ""  # the node of the newest process
        self._closing = False
        self._started = threading.Event()
        self._start_error: HeddleError | None = None
        self._start_failure: StartFailed | None = None
        self._had_process = False  # whether the newest start got as far as a process
        self._bell, self._bell_rope = socket.socketpair()
        self._bell_rope.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f"lane-{spec.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._spec.name

    @property
    def ports(self) -> Mapping[str, ProcessPort]:
        """One port for each engine, by the engine's name."""
        return MappingProxyType({port.name: port for port in self._ports})

    @property
    def epoch(self) -> int:
        """How often the lane was started, counting from 1."""
        return self._epoch

    @property
    def health(self) -> LaneHealth:
        """The lane's state for people and `/health`."""
        return self._supervisor.health(time.monotonic(), self._pid, self._place)

    def wait_ready(self) -> None:
        """Block until every engine is built.

        Raises: the HeddleError that an engine raised while it was built; ConfigError for any
            other exception there, and where no process could be started; EngineError where the
            process died or took longer than `limits.start_s_max`, which another try may not.
            The lane is closed then.
        """
        self._started.wait()
        if self._start_error is not None:
            self.close()
            raise self._start_error

    def send(self, engine: int, command: Command) -> None:
        """Send a command to one engine; never blocks. Used by the ports.

        Those of one cycle of the runtime leave together at its end.
        """
        port = self._ports[engine]
        with self._lock:
            if isinstance(command, Release) and command.handle.epoch != self._epoch:
                return
            if not port.live.sent(command):
                return
            refusal = self._refusal or self._outbox.put(ToEngine(engine, command))
            refused = bool(refusal) and self._fail(port, command, refusal)
        if refused:
            port.wake()

    def _send_gathered(self) -> None:
        with self._lock:
            self._outbox.flush()

    def close(self) -> None:
        """End the process, failing what is in flight. Takes at most `limits.close_s_max` or so."""
        self._closing = True
        self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> "ProcessLane":
        """Wait until the lane is ready."""
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the lane."""
        self.close()

    def _fail(self, port: ProcessPort, command: Command, message: str) -> bool:
        """Answer a refused command; returns whether it was one that needs an answer."""
        if not isinstance(command, Admit):
            _log.warning("engine %s: %s dropped: %s", port.name, type(command).__name__, message)
            return False
        failed = Failed(command.task.task_id, message, is_away=self._is_away)
        port.deliver(Frame(port.name, self._epoch, 0.0, (failed,)))
        return True

    def _ring(self) -> None:
        """Make the lane's thread look around."""
        with contextlib.suppress(OSError):  # it has rung already, or the lane is closed
            self._bell_rope.send(b"!")

    # What follows runs in the lane's thread.

    def _run(self) -> None:
        try:
            while not self._closing:
                reason = self._live_through_epoch()
                if self._closing or not self._go_on_after(reason):
                    break
        except Exception as error:
            reason = self._own_failure(error)
            self._give_up(reason, self._supervisor.watcher_failed(reason))
        finally:
            if self._closing:
                self._supervisor.closed()
                closed = f"{LANE_LOST} lane {self.name} was closed"
                self._end_epoch(closed, None, refusal=closed)
            if not self._started.is_set():
                self._start_error = self._start_error or ConfigError(
                    f"lane {self.name!r} was closed before it was ready"
                )
                self._started.set()
            self._bell.close()
            self._bell_rope.close()

    def _live_through_epoch(self) -> str:
        """Start a process, serve it until it is gone, and return why it went."""
        self._start_failure = None
        self._had_process = False
        self._supervisor.spawned(time.monotonic())
        try:
            process = self._start(self._spec)
        except OSError as error:
            return f"its process could not be started: {error}"
        self._pid, self._place = process.pid, process.place
        self._had_process = True
        try:
            return self._watch(process)
        except Exception as error:  # a message that can't be read, a bug here: another may do well
            return self._own_failure(error)
        finally:
            with self._lock:
                self._outbox.disconnect()
                process.channel.close()
            self._pid = None

    def _watch(self, process: StartedLane) -> str:
        """Serve a process until it has ended, after errors too, and return why it ended."""
        try:
            self._greet(process.channel)
            reason = self._serve(process)
        finally:
            if self._closing:
                process.channel.hang_up()  # the lane leaves when its socket closes
            else:
                process.kill()
            ended = process.wait(self._limits.close_s_max)
        self._drain(process.channel)
        if self._start_failure is not None:
            return self._start_failure.message
        return reason or ended

    def _own_failure(self, error: Exception) -> str:
        """Log what went wrong in this thread; return it in words."""
        _log.exception("lane %s: watching over it failed", self.name)
        return f"watching over it failed: {type(error).__name__}: {error}"

    def _go_on_after(self, reason: str) -> bool:
        """Fail what was in flight; wait out the pause and return True if there is a next epoch."""
        if self._supervisor.state is LaneState.RESTARTING:  # what waits for it can't have ended it
            reason = f"{WHILE_STARTING}{reason}"
        verdict = self._supervisor.lost(reason, time.monotonic())
        if isinstance(verdict, GiveUp):
            self._give_up(reason, verdict)
            if verdict.again is not None:
                self._pause(verdict.again.backoff_s)
            return verdict.again is not None
        message = lost_message(self.name, reason, verdict)
        _log.warning("%s", message)
        self._end_epoch(message, verdict.epoch, refusal="")
        self._pause(verdict.backoff_s)
        return True

    def _give_up(self, reason: str, verdict: GiveUp) -> None:
        """Leave the lane down: what is in flight fails, and what will be sent."""
        message = lost_message(self.name, reason, verdict)
        next_epoch = None if verdict.again is None else verdict.again.epoch
        self._end_epoch(message, next_epoch, refusal=refused_message(message))
        if self._started.is_set():
            _log.error("%s", message)
        else:
            self._start_error = _start_error(
                self.name, reason, self._start_failure, had_process=self._had_process
            )

    def _end_epoch(self, message: str, next_epoch: int | None, *, refusal: str) -> None:
        """Fail what is in flight and, with a refusal, what is sent until the lane is ready."""
        failure = self._start_failure
        with self._lock:
            self._outbox.clear()
            self._is_away = failure is not None and failure.error == Unreachable.__name__
            for port in self._ports:
                failed = port.live.fail_all(message, is_away=self._is_away)
                if failed:
                    port.deliver(Frame(port.name, self._epoch, 0.0, failed))
            self._refusal = refusal
            self._epoch = self._epoch if next_epoch is None else next_epoch
        for port in self._ports:
            port.wake()

    def _greet(self, channel: Channel) -> None:
        log_level = logging.getLogger("heddle").getEffectiveLevel()
        start = LaneStart(
            self._pickled_spec,
            self._supervisor.epoch,
            self._limits.heartbeat_s,
            log_level,
            log_format(),
        )
        with contextlib.suppress(ChannelClosed):  # it ended already; `_serve` sees that too
            channel.push(start)

    def _serve(self, process: StartedLane) -> str:
        """Read and write until the lane is gone (empty) or has to be killed (the reason)."""
        channel, progress = process.channel, process.progress
        was_silent = False
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        while not self._closing:
            wants_out = select.POLLOUT if channel.has_tail else 0
            poller.register(channel, select.POLLIN | wants_out)
            now_s = time.monotonic()
            progress_s = progress.seconds() if self._supervisor.is_silent(now_s) else 0.0
            reason = self._supervisor.fault(now_s, progress_s)
            if reason is not None:
                return reason
            if progress_s and not was_silent:
                _log.warning("lane %s: silent, but at work or without a core", self.name)
            was_silent = progress_s > 0.0
            wait_s = max(0.0, self._supervisor.next_check_s() - now_s)
            ready = poller.poll(wait_s * 1000.0)
            try:
                if any(fd == self._bell.fileno() for fd, _ in ready):
                    self._bell.recv(4096)
                messages = channel.receive()
                if any(isinstance(message, Heartbeat) for message in messages):
                    progress.mark()
                self._take_in(messages, channel)
                self._write_backlog()
            except ChannelBroken as error:
                return str(error)
            except ChannelClosed:
                return ""
        return ""

    def _take_in(self, messages: Sequence[object], channel: Channel) -> None:
        now_s = time.monotonic()
        touched: set[int] = set()
        for message in messages:
            match message:
                case FromEngine(engine=engine, frames=frames):
                    for frame in frames:
                        self._ports[engine].deliver(frame)
                    touched.add(engine)
                case Heartbeat():
                    self._supervisor.heard(now_s, message)
                case LaneReady():
                    self._on_ready(channel, now_s)
                case StartFailed():
                    self._start_failure = message
        if messages:
            self._supervisor.heard(now_s)
        for engine in touched:
            self._ports[engine].wake()

    def _on_ready(self, channel: Channel, now_s: float) -> None:
        self._supervisor.ready(now_s)
        with self._lock:
            self._refusal, self._is_away = "", False
            self._outbox.connect(channel)
        self._started.set()

    def _write_backlog(self) -> None:
        """Send what waited for the lane, as far as the socket takes it."""
        while True:
            with self._lock:  # free between two messages, so that `send` never waits for many
                sent = self._outbox.send_next()
                if sent is None:
                    return
                message, refusal = sent
                port = self._ports[message.engine]
                refused = bool(refusal) and self._fail(port, message.command, refusal)
            if refused:
                port.wake()

    def _drain(self, channel: Channel) -> None:
        """Take in what the lane had sent before it went: those tasks are done, not lost."""
        try:
            while messages := channel.receive():
                self._take_in(messages, channel)
        except ChannelClosed:
            return

    def _pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until the lane is closed."""
        until_s = time.monotonic() + seconds
        while not self._closing and (left_s := until_s - time.monotonic()) > 0:
            self._bell.settimeout(left_s)
            with contextlib.suppress(TimeoutError):
                self._bell.recv(4096)


def start_lanes(
    specs: Sequence[LaneSpec], limits: LaneLimits | None = None, start: Starter = LaneProcess
) -> tuple[ProcessLane, ...]:
    """Start lanes side by side and wait for all; if one fails, close all and raise its error."""
    lanes: list[ProcessLane] = []
    flagged, flags = with_flags(specs)
    try:
        lanes.extend(ProcessLane(spec, limits, start, flags) for spec in flagged)
        for lane in lanes:
            lane.wait_ready()
    except BaseException:
        for lane in lanes:
            lane.close()
        raise
    return tuple(lanes)


def _pickled(spec: LaneSpec) -> bytes:
    try:
        return pickle.dumps(spec, protocol=5)
    except Exception as error:  # pickle lets anything through that an object's hooks raise
        raise ConfigError(
            f"the settings of lane {spec.name!r} can't be pickled ({error}): use frozen "
            "dataclasses of plain values, defined in a module"
        ) from error


def _start_error(
    lane: str, reason: str, failure: StartFailed | None, *, had_process: bool
) -> HeddleError:
    """Return the error that `wait_ready` raises: the engine's own, where it has a plain one."""
    if failure is not None and failure.error in _PLAIN_ERRORS:
        return _PLAIN_ERRORS[failure.error](failure.message)
    if failure is not None or not had_process:
        where = "" if failure is not None else ", its messages are on stderr"
        return ConfigError(f"lane {lane!r} could not start: {reason}{where}")
    # Killed, or too slow on a busy machine: no setting is wrong, and the next try may do well.
    return EngineError(
        f"could not start: {reason}, its messages are on stderr",
        engine=f"lane {lane!r}",
        request_ids=(),
    )
