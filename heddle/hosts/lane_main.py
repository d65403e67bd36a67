"""The process of a lane: builds its engines, then applies commands and steps until told to leave.

It leaves when its socket closes: with its parent, however that ends. Engines finish what they are
writing first, unless a step is under way; the parent kills a lane that lingers.
"""

import logging
import math
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from heddle.core import errors
from heddle.core.errors import ConfigError, HeddleError
from heddle.core.frames import Event, Failed, Frame
from heddle.core.ports import Closable, SteppedEngine, Waking
from heddle.core.printing.log_lines import log_lines
from heddle.hosts.guarded_engine import GuardedEngine
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.lending.idle_flag import IdleFlag
from heddle.hosts.library_words import check_libraries, device_problem
from heddle.hosts.memory.resting_memory import RestingMemory
from heddle.hosts.memory.started import uncollected_start
from heddle.hosts.messages import FromEngine, LaneReady, LaneStart, StartFailed, ToEngine
from heddle.hosts.turns import Turns
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelClosed, Framing, MessageTooLarge
from heddle.hosts.wire.held_frames import HeldFrames
from heddle.hosts.wire.sealed import STATE_BYTES, Sealed, SealState
from heddle.hosts.wire.shared_memory import SharedMemory
from heddle.kernels.borrowed_cores import BORROWED_CORES
from heddle.runtime.supervision import Heartbeat

_log = logging.getLogger(__name__)
# Packages that an engine may lack, and the extra that brings each.
EXTRAS = {"transformers": "llm", "triton": "gpu"}
_BUILDING_S = float("inf")  # building an engine has its own limit, in the parent


class DeviceLost(Exception):
    """The GPU answers this process no more: only another process can use it."""


class Pulse(threading.Thread):
    """Says every `interval_s` that the process lives, and what step it is in; sees when it rests.

    Mutates: `enter` and `leave` replace the step as one value, so the thread never sees a half.
    """

    def __init__(self, channel: Channel, interval_s: float) -> None:
        super().__init__(name="pulse", daemon=True)
        self._channel = channel
        self._interval_s = interval_s
        self._step: tuple[str, float, float] | None = None
        self._watched: tuple[float, float] = (0.0, 0.0)  # a step's start, and the wait before it
        self._parent = os.getppid()
        self._memory = RestingMemory.of_this_process()
        self._has_stepped = True  # it was built

    def enter(self, engine: str, predicted_s: float) -> None:
        """Note that a step of this engine begins."""
        self._step = (engine, time.monotonic(), predicted_s)
        self._has_stepped = True

    def leave(self) -> None:
        """Note that the step is over."""
        self._step = None

    def run(self) -> None:
        """Send heartbeats; a parent that has died ends the process.

        One that has only closed the socket ends it mid-step: between steps the main thread does,
        which sees the socket close.
        """
        never = threading.Event()
        while not never.wait(self._interval_s):
            # A process forked from the parent could hold the socket open after the parent's
            # death: the parent's id shows it as well.
            if os.getppid() != self._parent:
                os._exit(0)
            try:
                self._channel.send(self._beat())
            except ChannelClosed:
                if self._step is not None:
                    os._exit(0)
            self._look_at_memory()

    def _look_at_memory(self) -> None:
        is_resting = self._step is None and not self._has_stepped
        self._has_stepped = False
        if self._memory is not None:
            self._memory.look(is_resting=is_resting, now_s=time.monotonic())

    def _beat(self) -> Heartbeat:
        step = self._step
        if step is None:
            return Heartbeat()
        engine, started_s, predicted_s = step
        waited_s = waited_for_core_s()
        if self._watched[0] != started_s:
            self._watched = started_s, waited_s
        # A step that waits for a busy machine isn't hung: that time doesn't count.
        starved_s = waited_s - self._watched[1]
        return Heartbeat(engine, time.monotonic() - started_s - starved_s, predicted_s)


def waited_for_core_s() -> float:
    """Return how long the main thread has been ready to run without a core [s]; 0 if unknown."""
    try:
        fields = Path(f"/proc/self/task/{os.getpid()}/schedstat").read_text("ascii").split()
    except OSError:
        return 0.0  # not Linux, or a kernel without it: every second counts then
    return int(fields[1]) / 1e9


def main() -> None:
    """Run a lane. Arguments: the descriptor of its socket, and its name; stdin: its seals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fd, name = int(sys.argv[1]), sys.argv[2]
    channel = Channel(_adopt(fd), _framing())
    try:
        start = _greeting(channel)
        log_lines(f"%(levelname)s %(name)s (lane {name}): %(message)s", start.log_format, name)
        logging.getLogger().setLevel(start.log_level)
        pulse = Pulse(channel, start.heartbeat_s)
        pulse.start()
        try:
            with uncollected_start():
                spec = _spec(start)
                idle = _opened(spec.idle_flag)
                if idle is not None:
                    idle.set(is_idle=False)
                engines = _build(spec, start.epoch, pulse)
                _borrow(spec)
        except Exception as error:
            if not isinstance(error, HeddleError):
                _log.exception("lane %s could not start", name)
            channel.send(_failure(error))
            _leave(1)
        for guarded in engines:
            if isinstance(guarded.engine, Waking):
                guarded.engine.subscribe(channel.bell())
        channel.send(LaneReady())
        with suppress(ChannelClosed):
            serve(channel, engines, pulse, idle)
        close_all([guarded.engine for guarded in engines])
        _leave(0)
    except ChannelClosed:
        _leave(0)
    except BaseException:
        _log.exception("lane %s failed", name)
        _leave(1)


def serve(
    channel: Channel,
    engines: Sequence[GuardedEngine],
    pulse: Pulse,
    idle: IdleFlag | None = None,
) -> None:
    """Apply what has arrived, step the next engine that has work, block when none has.

    Args:
        channel: to the parent.
        engines: of the lane.
        pulse: notes each step.
        idle: says whether an engine has work; None = no lane borrows from this one.

    Raises: ChannelClosed: the parent is gone; DeviceLost: the next step would fail as well.
    """
    turns, held = Turns(engines), HeldFrames()
    while True:
        now_s = time.monotonic()
        chosen, wait_s = turns.choose(now_s)
        if idle is not None:
            idle.set(is_idle=chosen is None)
        if wait_s > 0 or now_s >= held.due_s:
            for engine, frames in held.take(now_s).items():
                _send_frames(channel, FromEngine(engine, frames))
        for message in channel.receive(wait_s=wait_s):
            if isinstance(message, ToEngine):
                refusal = engines[message.engine].apply(message.command)
                if refusal is not None:  # its number is behind those that are held
                    told = held.add(message.engine, refusal, now_s)
                    channel.send(FromEngine(message.engine, told))
        if chosen is None or wait_s > 0:
            continue
        guarded = engines[chosen]
        if not guarded.wants_step:  # a command that came in between took its work away
            continue
        urgency = guarded.live.most_urgent
        pulse.enter(guarded.engine.name, guarded.predicted_step_s())
        frame = guarded.step(time.monotonic())
        pulse.leave()
        _check_device(frame)
        told = held.add(chosen, frame, time.monotonic())
        if told:
            _send_frames(channel, FromEngine(chosen, told))
        turns.stepped(chosen, urgency, frame, time.monotonic())


def _check_device(frame: Frame) -> None:
    """End a lane whose tasks have failed because its device is lost: they are tried on the next."""
    if not any(isinstance(event, Failed) and not event.is_input for event in frame.events):
        return
    if problem := device_problem():
        raise DeviceLost(problem)


def close_all(engines: Sequence[SteppedEngine]) -> None:
    """Close a lane's engines side by side: none waits with its writes for another's.

    Raises: what the first of them raised, once all are closed.
    """
    closable = [engine for engine in engines if isinstance(engine, Closable)]
    with ThreadPoolExecutor(max(1, len(closable)), "close") as threads:
        closing = [threads.submit(engine.close) for engine in closable]
    for closed in closing:
        closed.result()


def _send_frames(channel: Channel, message: FromEngine) -> None:
    try:
        channel.send(message)
    except ChannelClosed:
        raise
    except Exception:  # a result that pickle refuses must not take its neighbours along
        *quiet, told = message.frames
        _log.exception("a frame of engine %s can't be sent as it is", told.lane)
        bytes_max = channel.message_bytes_max / (2 * max(1, len(told.events)))
        events = tuple(_sendable(event, bytes_max) for event in told.events)
        channel.send(FromEngine(message.engine, (*quiet, told._replace(events=events))))


def _sendable(event: Event, bytes_max: float) -> Event:
    """Return an event, or the failure of its task where the event can't be sent.

    `bytes_max` is half of an event's share of a message: all of them fit beside the rest.
    """
    try:
        size = len(pickle.dumps(event, protocol=5))
        if size > bytes_max:
            raise MessageTooLarge(f"it has {size:,} bytes")
    except Exception as error:
        return Failed(
            event.task_id, f"the result can't be sent back: {type(error).__name__}: {error}"
        )
    return event


def _adopt(fd: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)  # a child of an engine must not keep the lane looking alive
    return sock


def _framing() -> Framing:
    """Return the form of the messages: an agent writes the seals of the stream to stdin."""
    seals = sys.stdin.buffer.read(STATE_BYTES)
    return Sealed(SealState.from_bytes(seals)) if seals else SharedMemory()


def _greeting(channel: Channel) -> LaneStart:
    while True:
        for message in channel.receive(wait_s=math.inf):
            assert isinstance(message, LaneStart), f"greeted with {type(message).__name__}"
            return message


def _spec(start: LaneStart) -> LaneSpec:
    spec = pickle.loads(start.spec)
    assert isinstance(spec, LaneSpec), f"a {type(spec).__name__} is no LaneSpec"
    return spec


def _borrow(spec: LaneSpec) -> None:
    """Compute on the cores of another lane, too, while that has nothing to do."""
    flag = _opened(spec.borrowed_flag)
    if flag is None:
        return
    if spec.only_scans_borrow:
        BORROWED_CORES.begin(flag.is_idle, spec.borrowed_cpus)
        return
    from heddle.kernels.borrowed_threads import BORROWED  # torch, which not every lane has

    BORROWED.begin(flag.is_idle, spec.threads, len(spec.borrowed_cpus))


def _opened(path: str) -> IdleFlag | None:
    """Return a flag; None where none is named or the system refuses: then no cores are lent."""
    if not path:
        return None
    try:
        return IdleFlag.open(path)
    except OSError as error:
        _log.warning("no cores are lent between lanes, as their flag can't be opened: %s", error)
        return None


def _build(spec: LaneSpec, epoch: int, pulse: Pulse) -> tuple[GuardedEngine, ...]:
    engines = []
    for engine in spec.engines:
        pulse.enter(engine.name, _BUILDING_S)
        built = call_factory(engine, epoch)
        engines.append(GuardedEngine(built, epoch, takes_turns=len(spec.engines) > 1))
    check_libraries()
    pulse.leave()
    return tuple(engines)


def call_factory(spec: EngineSpec, epoch: int) -> SteppedEngine:
    """Build an engine: import its factory and call it.

    Raises:
        ConfigError: there is no such function, the engine refuses its settings, or it needs a
            package that an extra brings.
    """
    module, _, function = spec.factory.partition(":")
    factory = getattr(import_module(module), function, None)
    if factory is None:
        raise ConfigError(
            f"EngineSpec.factory of {spec.name!r}: module {module} has no function {function!r}"
        )
    try:
        engine: SteppedEngine = factory(spec.name, epoch, spec.settings)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        raise ConfigError(
            f"engine {spec.name!r} needs the package {error.name}: pip install 'heddle[{extra}]'"
        ) from error
    return engine


def _failure(error: Exception) -> StartFailed:
    kind = type(error).__name__
    if isinstance(error, HeddleError) and hasattr(errors, kind):
        return StartFailed(kind, str(error))
    return StartFailed("", f"an engine could not be built: {kind}: {error}")


def _leave(code: int) -> None:
    """End the process without waiting for what libraries do at exit."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
