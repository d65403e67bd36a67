"""A request's stages and the engines' steps over time, as an SVG picture."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from heddle.cli.output.explained.words import seconds
from heddle.core.printing.printable import printable_line
from heddle.exporters.critical_path import CriticalPath
from heddle.exporters.measured_run import MeasuredRun
from heddle.exporters.stage_times import StageTime
from heddle.runtime.step_log import EngineStep

WIDTH, LABELS, ROW, BAR = 1000, 270, 24, 14
CHARACTERS: Final = 40  # of a label
TICKS: Final = 5
PIXEL_MIN: Final = 0.5  # steps nearer to each other are drawn as one


def timeline_svg(run: MeasuredRun, path: CriticalPath) -> str:
    """Return the picture: a row for each stage, waits lighter, and one for each engine.

    Args:
        run: the request that is drawn.
        path: its critical path, whose stages stand out.
    """
    total_s = max([run.receipt.latency_s, *(span.done_s for span in run.receipt.spans)])
    scale = (WIDTH - LABELS - 10) / total_s if total_s > 0 else 0.0
    times = sorted(run.times, key=lambda time: (time.span.ready_s, time.span.done_s))
    on_path = {part.stage.span.name for part in path.parts}
    engines = sorted({step.engine for step in run.steps})
    height = ROW * (len(times) + len(engines) + 1) + 8
    rows = [
        line
        for number, time in enumerate(times)
        for line in _stage(time, number, scale, is_on_path=time.span.name in on_path)
    ]
    for number, engine in enumerate(engines, start=len(times)):
        steps = [step for step in run.steps if step.engine == engine]
        rows += _engine(engine, steps, number, scale, run.started_s)
    return "\n".join(
        (
            f'<svg class="timeline" role="img" aria-label="timeline" width="{WIDTH}" '
            f'height="{height}" viewBox="0 0 {WIDTH} {height}">',
            *_axis(total_s, scale, height),
            *rows,
            "</svg>",
        )
    )


def _axis(total_s: float, scale: float, height: int) -> Iterator[str]:
    for tick in range(TICKS + 1):
        at_s = total_s * tick / TICKS
        x = LABELS + at_s * scale
        anchor = "end" if tick == TICKS else "middle"
        yield (
            f'<path class="tick" d="M {x:.1f} 0 V {height - ROW}"/>'
            f'<text class="axis" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">'
            f"{seconds(at_s)}</text>"
        )


def _stage(time: StageTime, number: int, scale: float, *, is_on_path: bool) -> Iterator[str]:
    span = time.span
    title = f"{span.name} on {span.engine}: waited {seconds(time.waited_s)}, ran "
    title += seconds(time.ran_s)
    yield _label(span.name, number)
    if span.sent_s > span.ready_s:
        yield _bar("waited", span.ready_s, span.sent_s, number, scale, title)
    kind = "ran path" if is_on_path else "ran"
    yield _bar(kind, time.held_s, span.done_s, number, scale, title)


def _engine(
    engine: str, steps: Sequence[EngineStep], number: int, scale: float, started_s: float
) -> Iterator[str]:
    yield _label(f"engine {engine}", number)
    for start_s, end_s in _joined(steps, PIXEL_MIN / scale if scale else 0.0):
        title = f"{engine} worked {seconds(end_s - start_s)}"
        yield _bar("step", start_s - started_s, end_s - started_s, number, scale, title)


def _joined(steps: Sequence[EngineStep], gap_s: float) -> Iterator[tuple[float, float]]:
    """Yield when an engine worked, with gaps that are too small to be seen left out."""
    start_s = end_s = None
    for step in sorted(steps, key=lambda step: step.start_s):
        if start_s is not None and end_s is not None and step.start_s - end_s <= gap_s:
            end_s = max(end_s, step.end_s)
            continue
        if start_s is not None and end_s is not None:
            yield start_s, end_s
        start_s, end_s = step.start_s, step.end_s
    if start_s is not None and end_s is not None:
        yield start_s, end_s


def _label(name: str, number: int) -> str:
    shown = name if len(name) <= CHARACTERS else f"{name[: CHARACTERS - 1]}…"
    return f'<text x="0" y="{number * ROW + BAR + 3}">{_safe(shown)}</text>'


def _bar(kind: str, start_s: float, end_s: float, number: int, scale: float, title: str) -> str:
    x, width = LABELS + max(0.0, start_s) * scale, max(1.0, (end_s - start_s) * scale)
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{number * ROW + 4}" width="{width:.1f}" '
        f'height="{BAR}"><title>{_safe(title)}</title></rect>'
    )


def _safe(text: str) -> str:
    return escape(printable_line(text))
