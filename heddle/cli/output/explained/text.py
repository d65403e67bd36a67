"""An explained workflow as lines of text."""

from collections.abc import Callable, Iterator, Sequence

from heddle.app.explain.explanation import Explanation, Measured, RegionReport
from heddle.cli.output.explained.words import (
    PATH_HEAD,
    TABLE_HEAD,
    barriers,
    cycle_words,
    early_work,
    gain_words,
    notes,
    overlap_words,
    path_cells,
    seconds,
    table_cells,
)
from heddle.core.printing.printable import printable_line, printable_text
from heddle.graph.pgraph import PGraph

Draw = Callable[[PGraph], str]
BARRIERS = "the function waited for values, and no pass saw its later calls before:"


def explanation_lines(explanation: Explanation, draw: Draw) -> Iterator[str]:
    """Yield all of an explanation.

    Args:
        explanation: of a workflow.
        draw: returns a graph as text.
    """
    count = len(explanation.regions)
    noun = "part" if explanation.is_function else "region"
    some = f"{count} {noun}{'' if count == 1 else 's'}"
    yield f"workflow {explanation.workflow!r}: {some}"
    if explanation.is_function and not count:
        yield "a function makes its parts as it runs: add --analyze DIR to see them"
    for number, region in enumerate(explanation.regions, start=1):
        yield from _region_lines(region, f"{noun} {number} of {count}", draw)
    if explanation.has_passes and explanation.cycle_passes:
        yield "\non every scheduling cycle:"
        for effect in explanation.cycle_passes:
            yield printable_line(f"  {effect.name}: {cycle_words(effect)}")
    if explanation.measured is not None:
        yield from _measured_lines(explanation.measured)
    if found := barriers(explanation):
        yield f"\n{BARRIERS}"
        yield from (f"  {barrier}" for barrier in found)
    for note in notes(explanation):
        yield f"\n{note}"


def _region_lines(region: RegionReport, name: str, draw: Draw) -> Iterator[str]:
    yield ""
    yield printable_line(f"{name}, {region.when}")
    yield f"as lowered (longest way: {seconds(region.lowered_s)}):"
    yield printable_text(draw(region.graph))
    for effect in region.effects:
        words = f"no change: {effect.words}"
        if effect.graph is not None:
            words = f"{gain_words(effect)}: {effect.words}"
        yield printable_line(f"pass {effect.name}: {words}")
    if region.final is not region.graph:
        yield f"behind all passes (longest way: {seconds(region.final_s)}):"
        yield printable_text(draw(region.final))


def _measured_lines(measured: Measured) -> Iterator[str]:
    runs = measured.table.runs
    some = f"{runs} run{'' if runs == 1 else 's'}"
    yield f"\nmeasured, medians of {some} with nothing else under way:"
    yield from _aligned([TABLE_HEAD, *table_cells(measured.table)], left=2)
    yield ""
    yield from _aligned([PATH_HEAD, *path_cells(measured)], left=1)
    yield f"\n{overlap_words(measured.table)}"
    yield from early_work(measured)


def _aligned(rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Yield the rows of a table; the first `left` columns begin, the others end, in a line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()
