"""A line plot as SVG, by hand: a few series over one axis each."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 34, 70
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7a4e9f")
TICKS = 4


class Panel(NamedTuple):
    """One plot: series of equal length over `x`; what is not finite is left out."""

    title: str
    x_label: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]


def line_plot(panels: Sequence[Panel]) -> str:
    """Return an SVG of panels side by side, from zero up."""
    body = "".join(
        f'<g transform="translate({i * WIDTH},0)">{_panel(panel)}</g>'
        for i, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(panels)}" height="{HEIGHT}"'
        f' font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/>{body}</svg>\n'
    )


def _panel(panel: Panel) -> str:
    values = [y for ys in panel.series.values() for y in ys if y < float("inf")]
    x_max, y_max = max(panel.x, default=0.0) or 1.0, max(values, default=0.0) or 1.0
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + plot_width * x / x_max, TOP + plot_height * (1 - y / y_max)

    parts = [_text(WIDTH / 2, 18, panel.title), _text(WIDTH / 2, HEIGHT - 38, panel.x_label)]
    for tick in range(TICKS + 1):
        x, y = x_max * tick / TICKS, y_max * tick / TICKS
        (x_at, bottom), (left, y_at) = at(x, 0), at(0, y)
        parts.append(_text(x_at, bottom + 14, f"{x:.3g}"))
        parts.append(_text(left - 6, y_at + 4, f"{y:.3g}", "end"))
        parts.append(f'<path d="M{left},{y_at:.1f}h{plot_width}" stroke="#ddd"/>')
    for i, (name, ys) in enumerate(panel.series.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = [at(x, y) for x, y in zip(panel.x, ys, strict=True) if y < float("inf")]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        legend_at = LEFT + i * plot_width / len(panel.series)
        parts.append(_text(legend_at, HEIGHT - 16, name, "start", colour))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}>{escape(text)}</text>"
