"""What may go wrong in a simulation: drawn for each step, each write and each arrival."""

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

Strike = tuple[str, int]
"""Where a fault struck, a lane, DISK or SERVER, and at which of its draws, from 1."""

DISK: Final = "disk"
SERVER: Final = "server"


class Fault(Enum):
    """One thing that goes wrong with one step, one write or at one arrival."""

    FAIL_TASK = "fail_task"  # the engine fails one of the tasks that it would have finished
    BREAK_STEP = "break_step"  # the worker raises
    SLOW_STEP = "slow_step"  # the step takes many times its predicted length
    LOSE_LANE = "lose_lane"  # the lane dies in the middle of the step
    LOSE_FRAME = "lose_frame"  # the step's frame never arrives
    REPEAT_FRAME = "repeat_frame"  # it arrives twice
    DELAY_FRAME = "delay_frame"  # it arrives late, and the lane's next ones behind it
    HANG = "hang"  # the lane stands still until it is noticed and killed
    FALSE_DEATH = "false_death"  # the lane is replaced while it goes on: two epochs are alive
    SLOW_START = "slow_start"  # the lane dies, and the next takes long to start
    GIVE_UP = "give_up"  # the lane dies and is not started any more
    DISK_FULL = "disk_full"  # a write is refused: ENOSPC
    DISK_ERROR = "disk_error"  # a write fails: EIO
    TORN_WRITE = "torn_write"  # a write stops in the middle, with an error
    BIT_ROT = "bit_rot"  # a chunk that was written earlier can't be read any more
    CRASH_SERVER = "crash_server"  # the server dies with all its lanes, and is started again


DISK_FAULTS: Final = frozenset({Fault.DISK_FULL, Fault.DISK_ERROR, Fault.TORN_WRITE, Fault.BIT_ROT})
SERVER_FAULTS: Final = frozenset({Fault.CRASH_SERVER})
LANE_FAULTS: Final = frozenset(Fault) - DISK_FAULTS - SERVER_FAULTS
DELAYS: Final = frozenset({Fault.SLOW_STEP, Fault.REPEAT_FRAME, Fault.DELAY_FRAME})
HARMFUL: Final = frozenset(Fault) - DELAYS - SERVER_FAULTS - {Fault.BIT_ROT}
"""Those that make tasks fail."""


@dataclass(frozen=True, slots=True)
class FaultRates:
    """The share of steps, writes or arrivals that each fault hits."""

    fail_task: float = 0.0
    break_step: float = 0.0
    slow_step: float = 0.0
    lose_lane: float = 0.0
    lose_frame: float = 0.0
    repeat_frame: float = 0.0
    delay_frame: float = 0.0
    hang: float = 0.0
    false_death: float = 0.0
    slow_start: float = 0.0
    give_up: float = 0.0
    disk_full: float = 0.0
    disk_error: float = 0.0
    torn_write: float = 0.0
    bit_rot: float = 0.0
    crash_server: float = 0.0


NO_FAULTS = FaultRates()


def strikes_at(place: str, strikes: Collection[Strike] | None) -> frozenset[int] | None:
    """Return at which draws of one place faults may strike; None = at all."""
    if strikes is None:
        return None
    return frozenset(draw for where, draw in strikes if where == place)


@dataclass(slots=True)
class FaultSource:
    """Draws the faults of one lane, of the disk or of the server, and counts those that it drew.

    Args:
        rates: how often each strikes.
        draws: where they come from.
        kinds: those that can strike here.
        allowed: the draws that may strike, from 1; None = all. The others are left out.

    Mutates: `next` counts in `drawn`, and keeps in `struck` at which draws something struck.
    """

    rates: FaultRates
    draws: random.Random
    kinds: Collection[Fault] = LANE_FAULTS
    allowed: Collection[int] | None = None
    drawn: Counter[Fault] = field(default_factory=Counter)
    struck: list[int] = field(default_factory=list)
    _count: int = 0
    _shares: tuple[tuple[Fault, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        shares = ((f, getattr(self.rates, f.value)) for f in Fault if f in self.kinds)
        self._shares = tuple((fault, share) for fault, share in shares if share)

    @property
    def harm_done(self) -> int:
        """How many faults have struck that make tasks fail."""
        return sum(self.drawn[fault] for fault in HARMFUL)

    def next(self) -> Fault | None:
        """Return what goes wrong next, if anything. One draw a step, a write or an arrival."""
        self._count += 1
        left = self.draws.random()
        for fault, share in self._shares:
            left -= share
            if left < 0:
                return self._strike(fault)
        return None

    def _strike(self, fault: Fault) -> Fault | None:
        if self.allowed is not None and self._count not in self.allowed:
            return None
        self.drawn[fault] += 1
        self.struck.append(self._count)
        return fault
