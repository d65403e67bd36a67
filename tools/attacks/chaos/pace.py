"""How fast faults may follow each other: a lane that dies too often is given up."""

import threading
import time
from collections import deque
from typing import Final

from heddle.runtime.supervision import LaneLimits
from tools.attacks.chaos.campaign import Fault
from tools.attacks.chaos.scene import Scene

MARGIN_S: Final = 5.0  # from a fault until it is noticed, and the lane is started again


class Pace:
    """Has faults wait until a lane that all of the last ones have hit would still be restarted.

    Args:
        limits: how often a lane is restarted.
    """

    def __init__(self, limits: LaneLimits) -> None:
        self._limits = limits
        self._struck_s: deque[float] = deque(maxlen=limits.restarts_max)

    def kept_by(self, fault: Fault) -> Fault:
        """Return a fault that waits for its turn."""

        def strike(scene: Scene) -> None:
            if len(self._struck_s) == self._struck_s.maxlen:
                free_s = self._struck_s[0] + self._limits.restart_window_s + MARGIN_S
                threading.Event().wait(max(0.0, free_s - time.perf_counter()))
            fault(scene)
            self._struck_s.append(time.perf_counter())

        return strike
