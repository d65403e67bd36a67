"""Draw the figures of the results pages from their JSON: `python -m tools.plots`.

The files are docs/results/plots/NAME.svg; `pip install 'heddle[bench]'` brings matplotlib.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from heddle.simulator.line_plot import Draw, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS: Final = Path(__file__).resolve().parent.parent / "docs" / "results"
PLOTS: Final = RESULTS / "plots"
Rows = Sequence[Mapping[str, Any]]


def latencies(rows: Rows) -> Iterator[Draw]:
    """Yield, for each corpus, how many requests of each contender end within a time."""
    for cell in ("light", "heavy"):
        taken: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            if row.get("cell") == cell:
                taken[row["contender"]] += row["latencies_s"]
        yield _latencies_drawn(cell, taken)


def ladder(rows: Rows) -> Iterator[Draw]:
    """Yield, for each batch, the time to the first token on each rung."""
    for batch in sorted({row["batch"] for row in rows}):
        rungs = {row["rung"]: row["ttft_s"] for row in rows if row["batch"] == batch}
        yield _bars_drawn(f"{batch} prompt(s) at once", "time to the first token [s]", rungs)


def recall_and_rate(rows: Rows) -> Iterator[Draw]:
    """Yield how many searches a second each index makes at which recall."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if "recall" in row:  # the others are two settings in turns
            found[row["name"]].append((row["recall"], row["qps"]))
    yield _rates_drawn(found)


FIGURES: Final[Mapping[str, Callable[[Rows], Iterator[Draw]]]] = {
    "coscheduling": latencies,
    "fusion-ladder": ladder,
    "pgvector": recall_and_rate,
}
"""The JSON files that are drawn, by their names, and how."""


def drawn(name: str) -> str:
    """Return the SVG of a results file."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return svg_of([*FIGURES[name](found["rows"])])


def main() -> None:
    """Draw them all."""
    PLOTS.mkdir(exist_ok=True)
    for name in FIGURES:
        (PLOTS / f"{name}.svg").write_text(drawn(name), encoding="utf-8")
        print(f"drawn: {(PLOTS / name).relative_to(RESULTS.parent.parent)}.svg")


def _latencies_drawn(cell: str, taken: Mapping[str, Sequence[float]]) -> Draw:
    def draw(axes: "Axes") -> None:
        for name, seconds in taken.items():
            axes.ecdf(seconds, label=name)
        axes.set(title=cell, xlabel="answered within [s]", ylabel="share of the requests")
        axes.set_xscale("log")
        axes.legend(frameon=False)

    return draw


def _bars_drawn(title: str, label: str, values: Mapping[str, float]) -> Draw:
    def draw(axes: "Axes") -> None:
        axes.barh([*values], [*values.values()])
        axes.invert_yaxis()
        axes.set(title=title, xlabel=label)

    return draw


def _rates_drawn(found: Mapping[str, Sequence[tuple[float, float]]]) -> Draw:
    def draw(axes: "Axes") -> None:
        for name, points in found.items():
            recalls, rates = zip(*sorted(points), strict=True)
            axes.plot(recalls, rates, marker=".", label=name)
        axes.set(title="one core", xlabel="recall of 10", ylabel="searches a second")
        axes.set_yscale("log")
        axes.legend(frameon=False)

    return draw


if __name__ == "__main__":
    main()
