"""The steps of engines one by one, with what their cost models gave for them before."""

from dataclasses import dataclass
from typing import Final

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Frame

LOGGED_MAX: Final = 100_000  # some hundred requests; later steps are counted, not kept


@dataclass(frozen=True, slots=True)
class EngineStep:
    """One step of an engine, by the runtime's clock [s].

    `predicted_s` is what the engine's cost model gave for it, fitted to earlier steps alone; None =
    there was none yet.
    """

    engine: str
    start_s: float
    end_s: float
    predicted_s: float | None


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
        predicted_s = None
        if frame.costs is not None:
            # Several lanes may share an engine's name, and each has costs of its own.
            known = self._costs.get(frame.costs.lane)
            predicted_s = None if known is None else known.predict_s(frame.features)
            self._costs[frame.costs.lane] = frame.costs
        self.steps.append(EngineStep(frame.lane, ended_s - frame.seconds, ended_s, predicted_s))
