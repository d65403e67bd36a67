"""The steps of engines one by one, with what their cost models gave for them before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Frame

LOGGED_MAX: Final = 100_000  # some hundred requests; later steps are counted, not kept


@dataclass(frozen=True, slots=True)
class EngineStep:
    """One step of an engine, by the runtime's clock [s].

    `predicted_s` is what the engine's cost model gave for it, fitted to earlier steps alone; None =
    there was none yet. `lane` names one of the lanes behind the engine; empty = not known.
    """

    engine: str
    start_s: float
    end_s: float
    predicted_s: float | None
    lane: str = ""


class StepLog:
    """Keeps the first steps that it hears of.

    Args:
        steps_max: how many.

    Mutates: `steps`; of what comes after the last one `left_out` counts.
    """

    def __init__(self, steps_max: int = LOGGED_MAX) -> None:
        self.steps: list[EngineStep] = []
        self.left_out = 0
        self._steps_max = steps_max
        self._costs: dict[str, CostSnapshot] = {}

    def step(self, frame: Frame, ended_s: float) -> None:
        """Take in one step that took time."""
        if len(self.steps) == self._steps_max:
            self.left_out += 1
            return
        predicted_s, lane = None, ""
        if frame.costs is not None:
            # Several lanes may share an engine's name, and each has costs of its own.
            lane = frame.costs.lane
            known = self._costs.get(lane)
            predicted_s = None if known is None else known.predict_s(frame.features)
            self._costs[lane] = frame.costs
        start_s = ended_s - frame.seconds
        self.steps.append(EngineStep(frame.lane, start_s, ended_s, predicted_s, lane))


def one_by_one(steps: Sequence[EngineStep]) -> tuple[EngineStep, ...]:
    """Return steps at times when they can have run: a lane makes one step after another.

    A step is known to end when its frame comes in. Frames that were held up come in together, so
    their steps seem to overlap: each had ended before the next one of its lane began.
    """
    next_s: dict[tuple[str, str], float] = {}
    found = []
    for step in reversed(steps):
        place = step.engine, step.lane
        early_s = max(0.0, step.end_s - next_s.get(place, step.end_s))
        moved = replace(step, start_s=step.start_s - early_s, end_s=step.end_s - early_s)
        next_s[place] = moved.start_s
        found.append(moved)
    return tuple(reversed(found))
