"""Looking into a running server: is everything that was taken given back?"""

import os
import signal
import threading
import time
from collections.abc import Callable

from heddle import Server


def eventually(is_true: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait for something that other threads or processes bring about."""
    pause = threading.Event()
    until_s = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < until_s, f"did not happen within {within_s:g} s"
        pause.wait(0.02)


def holds_nothing(server: Server) -> bool:
    """Whether no request, task, lease or credit is out."""
    state = server.state()
    held = (
        count
        for engine in state.engines.values()
        for count in (engine.queued, engine.in_flight, engine.credits_used)
    )
    return not (state.requests or state.leases or any(held))


def pid_of(server: Server, lane: str) -> int:
    """Return the process of a lane that is up."""
    pid = server.state().lanes[lane].pid
    assert pid is not None, f"{lane} is down"
    return pid


def kill_lane(server: Server, lane: str) -> None:
    """Kill a lane's process, as the system does where memory is short."""
    os.kill(pid_of(server, lane), signal.SIGKILL)
