"""Line plots side by side, as SVG by matplotlib: a few series over one axis each."""

import io
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan
from typing import TYPE_CHECKING, NamedTuple

from heddle.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_IN, HEIGHT_IN = 4.2, 3.2

Draw = Callable[["Axes"], None]
"""Draws one of the plots that stand side by side."""


class Panel(NamedTuple):
    """One plot: series of equal length over `x`; what is not finite is left out."""

    title: str
    x_label: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]


def line_plot(panels: Sequence[Panel]) -> str:
    """Return an SVG of panels side by side, from zero up.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    return svg_of([panel_drawn(panel) for panel in panels])


def panel_drawn(panel: Panel) -> Draw:
    """Return what draws a panel."""

    def draw(axes: "Axes") -> None:
        for name, values in panel.series.items():
            known = [value if isfinite(value) else nan for value in values]
            axes.plot(panel.x, known, marker=".", label=name)
        axes.set(title=panel.title, xlabel=panel.x_label, xlim=(0, None), ylim=(0, None))
        axes.legend(frameon=False)

    return draw


def svg_of(draws: Sequence[Draw]) -> str:
    """Return an SVG of plots side by side; equal plots give equal text.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a plot needs the package {error.name}: pip install 'heddle[bench]'"
        ) from None
    style = mpl.rc_context(
        {
            "svg.hashsalt": "heddle",  # else each drawing has ids of its own
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    with style:
        figure = Figure((WIDTH_IN * len(draws), HEIGHT_IN), layout="constrained")
        row = figure.subplots(1, len(draws), squeeze=False)[0]
        for axes, draw in zip(row, draws, strict=True):
            draw(axes)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return "".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines())
