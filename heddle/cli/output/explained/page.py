"""An explained workflow as one page: no script, and nothing from the network."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from heddle.app.explain.explanation import Explanation, Measured, RegionReport
from heddle.cli.output.explained.graph_svg import graph_svg
from heddle.cli.output.explained.timeline_svg import timeline_svg
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
from heddle.core.printing.printable import printable_line

# The policy forbids what a name could smuggle in, even if one were not escaped.
HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2733; --soft: #5b6b7a; --line: #c9d3dc;
  --paper: #fff; --box: #eef3f8; --ran: #6b93bd; --path: #d1702f; --wait: #cfd8e1; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e3e9ef; --soft: #9babba;
  --line: #44525f; --paper: #161c22; --box: #25303b; --ran: #5f8ab8; --path: #e08a4c;
  --wait: #46525e; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1040px; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ margin-top: 2.2rem; }}
table {{ border-collapse: collapse; margin: .8rem 0; }}
th, td {{ text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.scroll {{ overflow-x: auto; }}
svg {{ font: 11px ui-monospace, monospace; fill: var(--ink); }}
.soft, .kind, .axis {{ color: var(--soft); fill: var(--soft); }}
.box {{ fill: var(--box); stroke: var(--line); }}
.edge {{ fill: none; stroke: var(--soft); stroke-width: 1.3; }}
.edge.order {{ stroke-dasharray: 2 4; }}
.edge.effect {{ stroke-dasharray: 7 4; }}
.edge.items {{ stroke: var(--path); }}
.tick {{ stroke: var(--line); }}
.waited {{ fill: var(--wait); }}
.ran, .step {{ fill: var(--ran); }}
.ran.path {{ fill: var(--path); }}
</style>
</head>
<body>
"""
EDGES: Final = (
    "Solid: a value. Dashed: an effect. Dotted: only the order of the nodes. "
    "Coloured: item by item, before the whole is there."
)
BARS: Final = (
    "Pale: ready, but not with its engine. Coloured: with its engine; the stronger colour is the "
    "critical path. Below, the steps of each engine."
)


def explanation_page(explanation: Explanation) -> str:
    """Return the page. No name of a node, an engine or a pass in it can be read as markup."""
    title = _safe(f"Workflow {explanation.workflow}")
    return "\n".join((HEAD.format(title=title), *_body(explanation, title), "</body>\n</html>\n"))


def _body(explanation: Explanation, title: str) -> Iterator[str]:
    yield f"<h1>{title}</h1>"
    yield from (f"<p>{_safe(note)}</p>" for note in notes(explanation))
    if explanation.measured is not None:
        yield from _measured(explanation.measured)
    if found := barriers(explanation):
        yield "<h2>Where the function waited</h2>"
        yield "<p>It needed these values, and no pass saw its later calls before.</p><ul>"
        yield from (f"<li>{_safe(barrier)}</li>" for barrier in found)
        yield "</ul>"
    noun = "Part" if explanation.is_function else "Region"
    for number, region in enumerate(explanation.regions, start=1):
        yield from _region(region, f"{noun} {number}: {region.when}")
    if explanation.has_passes and explanation.cycle_passes:
        yield "<h2>On every scheduling cycle</h2>"
        cells = ((effect.name, cycle_words(effect)) for effect in explanation.cycle_passes)
        yield from _table(("pass", "what it did"), cells, words=2)


def _measured(measured: Measured) -> Iterator[str]:
    runs = measured.table.runs
    yield "<h2>Measured</h2>"
    yield f"<p>Medians of {runs} run{'' if runs == 1 else 's'} with nothing else under way; "
    yield f"{_safe(overlap_words(measured.table))}.</p>"
    yield from _table(TABLE_HEAD, table_cells(measured.table), words=2)
    yield from (f"<p>In the middle run, {_safe(words)}.</p>" for words in early_work(measured))
    yield "<h2>Timeline of the middle run</h2>"
    yield f'<div class="scroll">{timeline_svg(measured.middle, measured.path)}</div>'
    yield f'<p class="soft">{BARS}</p>'
    yield from _table(PATH_HEAD, path_cells(measured), words=1)


def _region(region: RegionReport, title: str) -> Iterator[str]:
    yield f"<h2>{_safe(title)}</h2>"
    yield f"<p>As lowered; longest way: {seconds(region.lowered_s)}.</p>"
    yield f'<div class="scroll">{graph_svg(region.graph, f"{title}, as lowered")}</div>'
    if region.final is not region.graph:
        yield f"<p>Behind all passes; longest way: {seconds(region.final_s)}.</p>"
        yield f'<div class="scroll">{graph_svg(region.final, f"{title}, behind all passes")}</div>'
    yield f'<p class="soft">{EDGES}</p>'
    if region.effects:
        cells = (
            (effect.name, "" if effect.graph is None else gain_words(effect), effect.words)
            for effect in region.effects
        )
        yield from _table(("pass", "gain", "what it changed, or why not"), cells, words=3)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: int) -> Iterator[str]:
    """Yield a table whose first `words` columns are words, and the others numbers."""
    kinds = ["" if place < words else ' class="number"' for place in range(len(head))]
    titles = zip(kinds, head, strict=True)
    yield '<div class="scroll"><table>'
    yield f"<tr>{''.join(f'<th{kind}>{_safe(cell)}</th>' for kind, cell in titles)}</tr>"
    for row in rows:
        cells = zip(kinds, row, strict=True)
        yield f"<tr>{''.join(f'<td{kind}>{_safe(cell)}</td>' for kind, cell in cells)}</tr>"
    yield "</table></div>"


def _safe(text: str) -> str:
    return escape(printable_line(text))
