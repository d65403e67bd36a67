"""Looking into a running server: is everything that was taken given back?"""

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
    runtime = server._running.loop.runtime
    return (
        not runtime.requests.open
        and not runtime.tasks.open
        and not runtime.tasks.leases
        and runtime.requests.admission.live == 0
        and all(lane.in_flight == 0 for lane in runtime.lanes.values())
        and all(p.credits.free == p.credits.total for p in runtime.ports)
    )
