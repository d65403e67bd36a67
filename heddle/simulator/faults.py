"""What may go wrong in a simulated lane, drawn once for each step."""

import random
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Fault(Enum):
    """One thing that goes wrong with one step."""

    FAIL_TASK = "fail_task"  # the engine fails one of the tasks that it would have finished
    BREAK_STEP = "break_step"  # the worker raises
    SLOW_STEP = "slow_step"  # the step takes many times its predicted length
    LOSE_LANE = "lose_lane"  # the lane dies in the middle of the step
    LOSE_FRAME = "lose_frame"  # the step's frame never arrives
    REPEAT_FRAME = "repeat_frame"  # it arrives twice


HARMFUL: Final = frozenset({Fault.FAIL_TASK, Fault.BREAK_STEP, Fault.LOSE_LANE, Fault.LOSE_FRAME})
"""Those that make tasks fail; the others may only delay them."""


@dataclass(frozen=True, slots=True)
class FaultRates:
    """The share of steps that each fault hits."""

    fail_task: float = 0.0
    break_step: float = 0.0
    slow_step: float = 0.0
    lose_lane: float = 0.0
    lose_frame: float = 0.0
    repeat_frame: float = 0.0


NO_FAULTS = FaultRates()


@dataclass(slots=True)
class FaultSource:
    """Draws the faults of one lane, and counts those that it drew."""

    rates: FaultRates
    draws: random.Random
    drawn: Counter[Fault] = field(default_factory=Counter)
    _shares: tuple[tuple[Fault, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._shares = tuple((fault, getattr(self.rates, fault.value)) for fault in Fault)

    def next(self) -> Fault | None:
        """Return what goes wrong with the next step, if anything. One draw a step."""
        left = self.draws.random()
        for fault, share in self._shares:
            left -= share
            if left < 0:
                self.drawn[fault] += 1
                return fault
        return None
