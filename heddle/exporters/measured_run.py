"""One request as it was measured: its receipt, and the steps of the engines meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from heddle.exporters.stage_times import Producers, StageTime, stage_times
from heddle.runtime.receipt import Receipt
from heddle.runtime.step_log import EngineStep
from heddle.runtime.step_trace import Overlap, overlap_of


@dataclass(frozen=True, slots=True)
class StageWork:
    """What an engine did for a stage [s]: its steps, and what its cost model gave for them.

    `predicted_s` is None where the engine had no cost model before one of these steps.
    """

    computed_s: float
    predicted_s: float | None


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One request that ran alone.

    Args:
        receipt: the request's.
        started_s: when it was handed in, by the clock of the steps [s].
        steps: those of all engines from then until its answer.
        producers: of each of its primitives.
    """

    receipt: Receipt
    started_s: float
    steps: tuple[EngineStep, ...] = ()
    producers: Producers = field(default_factory=dict)

    @property
    def times(self) -> tuple[StageTime, ...]:
        """The times of its stages, in the order in which they ended."""
        return stage_times(self.receipt.spans, self.producers)

    @property
    def overlap(self) -> Overlap:
        """How long any engine worked, and how long two or more did at once."""
        return overlap_of((step.start_s, step.end_s) for step in self.steps)

    def work(self) -> dict[str, StageWork]:
        """Return what the engines did for each stage; a stage without a step is missing.

        A step belongs to the stage that its engine had in the middle of the step. Several such
        stages share it equally. Where there is none, the nearest one has it: a request's arrival
        is known only to within the way between two threads.
        """
        times = self.times
        parts: dict[str, list[tuple[float, float | None]]] = {}
        for step in self.steps:
            middle_s = (step.start_s + step.end_s) / 2 - self.started_s
            owners = _nearest([t for t in times if t.span.engine == step.engine], middle_s)
            for owner in owners:
                seconds = (step.end_s - step.start_s) / len(owners)
                predicted_s = None if step.predicted_s is None else step.predicted_s / len(owners)
                parts.setdefault(owner.span.name, []).append((seconds, predicted_s))
        return {name: _sum(of_stage) for name, of_stage in parts.items()}


def _nearest(times: Sequence[StageTime], at_s: float) -> list[StageTime]:
    away_s = [max(t.held_s - at_s, at_s - t.span.done_s, 0.0) for t in times]
    nearest_s = min(away_s, default=0.0)
    return [t for t, away in zip(times, away_s, strict=True) if away == nearest_s]


def _sum(parts: Sequence[tuple[float, float | None]]) -> StageWork:
    predicted_s = [predicted for _, predicted in parts if predicted is not None]
    is_whole = len(predicted_s) == len(parts)
    return StageWork(sum(s for s, _ in parts), sum(predicted_s) if is_whole else None)
