"""A lane's process, as the operating system knows it, and the channel to it."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from heddle.hosts.numa.memory_policy import memory_on
from heddle.hosts.process_progress import ProcessProgress
from heddle.hosts.wire.channel import Channel

_log = logging.getLogger(__name__)
_STDERR = 2
_BOOT = "import sys; sys.path[:] = sys.argv[3:]; from heddle.hosts.lane_main import main; main()"
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)


class Body(Protocol):
    """What the operating system has to know of a lane: a LaneSpec is one."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def cpus(self) -> tuple[int, ...]:
        """The cores it is pinned to; empty = wherever the system puts it."""
        ...

    @property
    def threads(self) -> int:
        """Threads of each numeric library inside it."""
        ...

    @property
    def memory_node(self) -> int | None:
        """The NUMA node that its memory is on; None = wherever the system puts it."""
        ...

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Names and values that its environment has beside this process's."""
        ...


class Progress(Protocol):
    """What a process does while it is silent."""

    def mark(self) -> None:
        """Count from now."""
        ...

    def seconds(self) -> float:
        """Return how long it has computed or waited for a core since then [s]."""
        ...


class StartedLane(Protocol):
    """A lane's process, on whichever machine, and the channel to it."""

    @property
    def channel(self) -> Channel:
        """Its channel."""
        ...

    @property
    def pid(self) -> int:
        """Its id, on its machine."""
        ...

    @property
    def place(self) -> str:
        """The node that it runs on; empty = this machine."""
        ...

    @property
    def progress(self) -> Progress:
        """How the process advances while it sends no message."""
        ...

    def kill(self) -> None:
        """Kill it and its children; doesn't wait."""
        ...

    def wait(self, wait_s: float) -> str:
        """Wait until it is gone, killing it if it lingers beyond `wait_s`; say how it ended."""
        ...


class ProcessGroup:
    """A process of a lane, leader of a group of its own, as the operating system knows it.

    Args:
        spec: the lane's name, cores, memory and threads; its engines come over the channel.
        fd: the lane's end of its channel; the process has a copy.
        seals: the channel's seals where it leads to another machine; empty = it has none.

    Raises:
        OSError: it can't be started.
    """

    def __init__(self, spec: Body, fd: int, seals: bytes = b"") -> None:
        self._process = _start(spec, fd, seals)

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def kill(self) -> None:
        """Kill it and its children: nothing of it goes on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, wait_s: float) -> str:
        """Wait until it is gone, killing it if it lingers beyond `wait_s`; say how it ended."""
        try:
            return _exit_words(self._process.wait(wait_s))
        except subprocess.TimeoutExpired:
            self.kill()
            return _exit_words(self._process.wait())


class LaneProcess(ProcessGroup):
    """Satisfies StartedLane, on this machine.

    Args:
        spec: its name, cores and threads.

    Raises:
        OSError: it can't be started.
    """

    place = ""

    def __init__(self, spec: Body) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        try:
            with theirs:
                super().__init__(spec, theirs.fileno())
        except BaseException:
            self.channel.close()
            raise
        self.progress = ProcessProgress(self.pid)


def _start(spec: Body, fd: int, seals: bytes) -> subprocess.Popen[bytes]:
    """Start the lane's interpreter with its cores and thread counts in place from the first line.

    It gets this process's module search path as arguments, so it finds the same modules, and a
    user's script needs no `if __name__ == "__main__"`: it is not imported again.
    """
    environment = dict(os.environ)
    environment.update(dict.fromkeys(_THREAD_VARIABLES, str(spec.threads)))
    # Threads that spin while they wait hold the core that the thread they wait for needs: on a
    # shared machine a decode step was seen to take 2.9 s instead of 0.2 s.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # oneDNN keeps 1,024 compiled products by default, each for the shapes of one batch: batches
    # vary, so 200 MB of them pile up over thousands of questions. Those of the sizes that come back
    # fit into 256; with 64 a question's embedding waits for some of them to be compiled anew.
    environment.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    environment.update(spec.environment)
    search_path = [str(Path(entry).absolute()) for entry in sys.path]
    # Affinity belongs to a thread and a child inherits that of the thread that starts it: set it
    # on this one for a moment, rather than in the child after its libraries made their threads.
    # So does the memory policy.
    pins = bool(spec.cpus) and hasattr(os, "sched_setaffinity")
    before = os.sched_getaffinity(0) if pins else set()
    try:
        if pins:
            os.sched_setaffinity(0, spec.cpus)
        with _memory_of(spec):
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, str(fd), spec.name, *search_path],
                pass_fds=(fd,),
                env=environment,
                stdin=subprocess.PIPE if seals else subprocess.DEVNULL,
                stdout=_STDERR,  # a lane must not write into the answers of its parent
                process_group=0,  # Ctrl-C in the terminal is the parent's business alone
            )
    finally:
        if pins:
            os.sched_setaffinity(0, before)
    if process.stdin is not None:  # not as an argument, which every user can read
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(seals)
    return process


@contextlib.contextmanager
def _memory_of(spec: Body) -> Iterator[None]:
    """Bind what is started inside to the lane's NUMA node; where that fails, say so and go on."""
    if spec.memory_node is None:
        yield
        return
    with memory_on(spec.memory_node) as problem:
        if problem:
            _log.warning("lane %s: its memory is not bound to a node: %s", spec.name, problem)
        yield


def _exit_words(code: int) -> str:
    if code < 0:
        try:
            return f"exit code {code}, {signal.Signals(-code).name}"
        except ValueError:
            return f"exit code {code}"
    return f"exit code {code}"
