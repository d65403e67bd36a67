"""Seconds, gains and shares as both the text and the page write them."""

from collections.abc import Iterator

from heddle.app.explain.explanation import Explanation, Measured
from heddle.app.explain.pass_effects import CycleEffect, PassEffect
from heddle.core.printing.printable import printable_line
from heddle.exporters.stage_table import StageTable

TABLE_HEAD = ("stage", "engine", "waited", "ran", "share", "worked", "predicted")
NOT_MEASURED = "not measured"
SHOWN_FROM_S = 5e-7  # less than half of what the last digit stands for


def seconds(length_s: float | None) -> str:
    """Return a length to a microsecond, or that it isn't known."""
    if length_s is None:
        return NOT_MEASURED
    return f"{length_s:.3f} s" if abs(length_s) >= 1 else f"{length_s * 1e3:.3f} ms"


def gain_words(effect: PassEffect) -> str:
    """Return what a pass that acted gains."""
    if effect.gain_s is None:
        return "gain not measured"
    if abs(effect.gain_s) < SHOWN_FROM_S:
        return "longest way as long as before"
    return f"gain up to {seconds(effect.gain_s)}"


def cycle_words(effect: CycleEffect) -> str:
    """Return what a pass of the scheduling cycles did."""
    if effect.count is None or not effect.count.acted or effect.count.error:
        return effect.words
    return f"{effect.words}, predicted gains {seconds(effect.count.gain_s)} in all"


def table_cells(table: StageTable) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of stages under `TABLE_HEAD`, the whole request last."""
    for row in table.rows:
        rows = f" x{row.rows}" if row.rows > 1 else ""
        runs = f" ({row.runs} of {table.runs} runs)" if row.runs < table.runs else ""
        yield (
            printable_line(f"{row.name}{rows}{runs}"),
            printable_line(row.engine),
            seconds(row.waited_s),
            seconds(row.ran_s),
            f"{row.share:.0%}",
            seconds(row.computed_s),
            seconds(row.predicted_s),
        )
    yield ("the whole request", "", "", seconds(table.latency_s), "100%", "", "")


def path_cells(measured: Measured) -> Iterator[tuple[str, str, str, str]]:
    """Yield the critical path: stage, what lay before it, its wait, its work."""
    for part in measured.path.parts:
        name = printable_line(part.stage.span.name)
        yield name, seconds(part.between_s), seconds(part.waited_s), seconds(part.ran_s)
    yield ("until the answer", seconds(measured.path.rest_s), "", "")


PATH_HEAD = ("critical path of the middle run", "between", "waited", "ran")


def overlap_words(table: StageTable) -> str:
    """Return how much of the engines' work ran at once."""
    if table.overlap is None:
        return "overlap: no engine reported a step"
    return (
        f"overlap: in {table.overlap:.1%} of the time in which engines worked, "
        "two or more worked at once"
    )


def early_work(measured: Measured) -> Iterator[str]:
    """Yield what passes have saved or begun early in the middle run, as far as anything."""
    receipt = measured.middle.receipt
    yield from (one.line(value) for one, value in receipt.counted() if one.by_pass)
    if receipt.speculations:
        used = sum(one.is_adopted for one in receipt.speculations)
        yield f"prompts computed ahead: {len(receipt.speculations)}, of which {used} were used"


def notes(explanation: Explanation) -> Iterator[str]:
    """Yield what else a reader has to know, a sentence each."""
    measured = explanation.measured
    if explanation.is_function and measured is None:
        yield (
            "A Python function makes this workflow as it runs: run it with --analyze DIR to see "
            "its parts."
        )
    if not explanation.has_passes:
        yield "optimizations is off: no pass runs."
    if explanation.is_cut:
        yield "There are more regions; these are the first."
    if measured is not None and measured.steps_left_out:
        yield (
            f"{measured.steps_left_out} steps of engines came after the last one that was kept: "
            "overlap and predictions lack them."
        )


def barriers(explanation: Explanation) -> tuple[str, ...]:
    """Return where the middle run of a workflow function waited for a value."""
    measured = explanation.measured
    if measured is None:
        return ()
    return tuple(printable_line(barrier) for barrier in measured.middle.receipt.barriers)
