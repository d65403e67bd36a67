"""Runs as a Trace Event file: https://ui.perfetto.dev opens it.

Source: "Trace Event Format" of Chromium's tracing project: complete events ("X") have a start `ts`
    and a length `dur`, both in microseconds; metadata events ("M") name processes and threads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from heddle.exporters.measured_run import MeasuredRun
from heddle.exporters.stage_times import StageTime
from heddle.runtime.step_log import EngineStep

T = TypeVar("T")
Event: TypeAlias = dict[str, Any]
NANOS: Final = 1e9  # whole ones: events that touch must not overlap by a rounding
ENGINES: Final = 1  # the process of the engines; those of the runs follow


def perfetto_trace(runs: Sequence[MeasuredRun], workflow: str) -> dict[str, Any]:
    """Return the trace as one JSON object.

    One process holds the engines, a thread each, with their steps. Each run is a process, with a
    thread for each node; stages of a node that run at once get threads of their own, as the events
    of one thread must lie one inside another. Time 0 is the first run's start.

    Args:
        runs: the runs, oldest first.
        workflow: its name.
    """
    begun_s = runs[0].started_s if runs else 0.0
    events = [*_process(ENGINES, "engines"), *_engine_events(runs, begun_s)]
    for number, run in enumerate(runs, start=1):
        process = ENGINES + number
        events += _process(process, f"{workflow}, run {number}")
        events += _run_events(run, process, run.started_s - begun_s)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _engine_events(runs: Sequence[MeasuredRun], begun_s: float) -> Iterator[Event]:
    by_engine: dict[str, list[EngineStep]] = {}
    for run in runs:
        for step in run.steps:
            by_engine.setdefault(step.engine, []).append(step)
    thread = 0
    for engine, steps in sorted(by_engine.items()):
        ordered = sorted(steps, key=lambda step: (step.start_s, step.end_s))
        for track in _tracks(ordered, lambda step: (step.start_s, step.end_s)):
            thread += 1
            yield from _thread(ENGINES, thread, engine)
            for step in track:
                predicted = {} if step.predicted_s is None else {"predicted_s": step.predicted_s}
                reach_s = step.start_s - begun_s, step.end_s - begun_s
                yield _slice((ENGINES, thread), "step", "engine", reach_s, predicted)


def _run_events(run: MeasuredRun, process: int, offset_s: float) -> Iterator[Event]:
    by_node: dict[str, list[StageTime]] = {}
    for time in sorted(run.times, key=_start_s):
        by_node.setdefault(time.span.node, []).append(time)
    yield from _thread(process, 0, "request")
    reach_s = offset_s, offset_s + run.receipt.latency_s
    yield _slice((process, 0), "request", "request", reach_s, {})
    thread = 0
    for node, times in by_node.items():
        for track in _tracks(times, lambda time: (_start_s(time), time.span.done_s)):
            thread += 1
            yield from _thread(process, thread, node)
            for time in track:
                yield from _stage_events(time, (process, thread), offset_s)


def _start_s(time: StageTime) -> float:
    """Return when a stage's first slice begins: its wait, or a decode's own turn."""
    return time.span.ready_s if time.held_s == time.span.sent_s else time.held_s


def _stage_events(time: StageTime, at: tuple[int, int], offset_s: float) -> Iterator[Event]:
    span = time.span
    start_s, held_s, done_s = _start_s(time), time.held_s, span.done_s
    about = {"engine": span.engine, "kind": span.kind.value, "rows": span.rows}
    if held_s > start_s:
        reach_s = offset_s + start_s, offset_s + held_s
        yield _slice(at, f"{span.name} waits", "wait", reach_s, about)
    yield _slice(at, span.name, "stage", (offset_s + held_s, offset_s + done_s), about)


def _tracks(items: Iterable[T], reach: Callable[[T], tuple[float, float]]) -> list[list[T]]:
    """Share items out, in the order of their starts, over tracks that hold no two at once."""
    tracks: list[list[T]] = []
    for item in items:
        start_s, _ = reach(item)
        free = (track for track in tracks if reach(track[-1])[1] <= start_s)
        track = next(free, None)
        if track is None:
            tracks.append([item])
        else:
            track.append(item)
    return tracks


def _slice(
    at: tuple[int, int], name: str, kind: str, reach_s: tuple[float, float], args: Event
) -> Event:
    start, end = (round(at_s * NANOS) for at_s in reach_s)
    return {
        "ph": "X",
        "pid": at[0],
        "tid": at[1],
        "name": name,
        "cat": kind,
        "ts": start / 1000,
        "dur": max(0, end - start) / 1000,
        "args": args,
    }


def _process(process: int, name: str) -> Iterator[Event]:
    yield _metadata("process_name", process, 0, {"name": name})
    yield _metadata("process_sort_index", process, 0, {"sort_index": process})


def _thread(process: int, thread: int, name: str) -> Iterator[Event]:
    yield _metadata("thread_name", process, thread, {"name": name})
    yield _metadata("thread_sort_index", process, thread, {"sort_index": thread})


def _metadata(name: str, process: int, thread: int, args: Event) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": name, "ts": 0, "args": args}
