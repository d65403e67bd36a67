"""A lane's device: it computes nothing, takes virtual time, and breaks when told to."""

import random
from dataclasses import dataclass

from heddle.core.ports import Clock


class DeviceError(RuntimeError):
    """What a worker raises when its device breaks."""


@dataclass(slots=True)
class SimulatedDevice:
    """The clock that an engine measures its steps by, and what a worker spends time on.

    Args:
        clock: the world's time when the present step began.
        jitter: draws how far each piece of work is from its predicted length.
        jitter_share: the largest such deviation, as a share of the length.

    Mutates: `run` adds to `spent_s`; the port takes it back with `take_spent_s` after a step.
    """

    clock: Clock
    jitter: random.Random
    jitter_share: float = 0.2
    slowness: float = 1.0
    is_broken: bool = False
    spent_s: float = 0.0

    def now_s(self) -> float:
        """Return the lane's time: the world's, and what the present step has spent [s]."""
        return self.clock.now_s() + self.spent_s

    def run(self, seconds: float) -> None:
        """Spend about so much time.

        Raises:
            DeviceError: the device was broken for this piece of work.
        """
        deviation = 1.0 + self.jitter_share * (2.0 * self.jitter.random() - 1.0)
        self.spent_s += seconds * deviation * self.slowness
        if self.is_broken:
            self.is_broken = False
            raise DeviceError("the simulated device broke")

    def take_spent_s(self) -> float:
        """Return what the step spent and start the next one at the normal speed [s]."""
        spent_s, self.spent_s = self.spent_s, 0.0
        self.slowness, self.is_broken = 1.0, False
        return spent_s
