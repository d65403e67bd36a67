"""The table of a workflow's stages: medians over a few runs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.exporters.measured_run import MeasuredRun, StageWork
from heddle.exporters.stage_times import StageTime


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage: medians over the runs that had it [s].

    Args:
        name: the primitive's, with the turn of its node.
        engine: the engine that ran it.
        kind: what was done.
        rows: texts that were embedded or queries that were searched for; 1 for other kinds.
        waited_s: ready, but not with its engine.
        ran_s: with its engine, once its inputs were whole.
        share: of the request's time, that it ran. Stages that run at once have shares of the same
            time, so all may add up to more than 1.
        computed_s: time of its engine's steps; None = the engine reports none.
        predicted_s: the engine's own prediction of these; None = it had none.
        runs: how many of the runs had it.
    """

    name: str
    engine: str
    kind: str
    rows: int
    waited_s: float
    ran_s: float
    share: float
    computed_s: float | None
    predicted_s: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class StageTable:
    """The stages in the order in which they began, and the median time of a request [s].

    `overlap` is the median share of the engines' time in which two or more worked at once; None =
    no engine reported a step.
    """

    rows: tuple[StageRow, ...]
    latency_s: float
    overlap: float | None
    runs: int


def stage_table(runs: Sequence[MeasuredRun]) -> StageTable:
    """Return the table of one workflow's runs, of which there is at least one."""
    seen: dict[str, list[tuple[StageTime, StageWork | None, float]]] = {}
    for run in runs:
        work = run.work()
        for time in run.times:
            known = time, work.get(time.span.name), run.receipt.latency_s
            seen.setdefault(time.span.name, []).append(known)
    rows = sorted(seen.values(), key=lambda of_stage: of_stage[-1][0].begun_s)
    shares = [
        overlap.overlapped_s / overlap.busy_s
        for overlap in (run.overlap for run in runs)
        if overlap.busy_s
    ]
    return StageTable(
        tuple(_row(of_stage) for of_stage in rows),
        statistics.median(run.receipt.latency_s for run in runs),
        statistics.median(shares) if shares else None,
        len(runs),
    )


def middle_run(runs: Sequence[MeasuredRun]) -> MeasuredRun:
    """Return the run of the median latency, the shorter one of two."""
    ordered = sorted(runs, key=lambda run: run.receipt.latency_s)
    return ordered[(len(ordered) - 1) // 2]


def _row(of_stage: Sequence[tuple[StageTime, StageWork | None, float]]) -> StageRow:
    span = of_stage[-1][0].span
    works = [work for _, work, _ in of_stage if work is not None]
    return StageRow(
        name=span.name,
        engine=span.engine,
        kind=span.kind.value,
        rows=span.rows,
        waited_s=statistics.median(time.waited_s for time, _, _ in of_stage),
        ran_s=statistics.median(time.ran_s for time, _, _ in of_stage),
        share=statistics.median(
            time.ran_s / latency_s if latency_s > 0 else 0.0 for time, _, latency_s in of_stage
        ),
        computed_s=_median([work.computed_s for work in works]),
        predicted_s=_median([w.predicted_s for w in works if w.predicted_s is not None]),
        runs=len(of_stage),
    )


def _median(seconds: Sequence[float]) -> float | None:
    return statistics.median(seconds) if seconds else None
