"""A primitive graph as an SVG picture: producers left, consumers right."""

from collections.abc import Iterator
from html import escape
from typing import Final

from heddle.core.printing.printable import printable_line
from heddle.graph.pgraph import Edge, PGraph, topological_order

CHARACTER: Final = 6.6  # width of one at the page's font size [px]
BOX_HEIGHT, ROW, COLUMN_GAP, MARGIN = 38, 56, 46, 12
NAME_MAX: Final = 40  # longer names are cut; the whole name is the box's title


def graph_svg(graph: PGraph, label: str) -> str:
    """Return the picture; no name in it can be read as markup.

    Args:
        graph: what is drawn.
        label: names it for screen readers.
    """
    places = _places(graph)
    names = [_cut(name) for name in places]
    width = CHARACTER * max([14, *map(len, names)]) + 16
    columns = 1 + max((column for column, _ in places.values()), default=0)
    rows = 1 + max((row for _, row in places.values()), default=0)
    size = (
        2 * MARGIN + columns * width + (columns - 1) * COLUMN_GAP,
        2 * MARGIN + rows * ROW - (ROW - BOX_HEIGHT),
    )
    return "\n".join(
        (
            f'<svg class="graph" role="img" aria-label="{escape(label)}" width="{size[0]:.0f}" '
            f'height="{size[1]:.0f}" viewBox="0 0 {size[0]:.0f} {size[1]:.0f}">',
            *_edges(graph, places, width),
            *_boxes(graph, places, width),
            "</svg>",
        )
    )


def _places(graph: PGraph) -> dict[str, tuple[int, int]]:
    """Return the column and the row of each primitive: a column behind its last producer."""
    places: dict[str, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for name in topological_order(graph):
        before = [places[e.producer][0] for e in graph.edges if e.consumer == name]
        column = 1 + max(before, default=-1)
        row = filled.get(column, 0)
        filled[column] = row + 1
        places[name] = column, row
    return places


def _corner(place: tuple[int, int], width: float) -> tuple[float, float]:
    column, row = place
    return MARGIN + column * (width + COLUMN_GAP), MARGIN + row * ROW


def _edges(graph: PGraph, places: dict[str, tuple[int, int]], width: float) -> Iterator[str]:
    for edge in sorted(graph.edges, key=_edge_order):
        from_x, from_y = _corner(places[edge.producer], width)
        to_x, to_y = _corner(places[edge.consumer], width)
        start = from_x + width, from_y + BOX_HEIGHT / 2
        # The kinds of one pair lie side by side: one that may begin early has two.
        aside = 7 if edge.kind.value == "items" else 0
        end = to_x, to_y + BOX_HEIGHT / 2 + aside
        reach = COLUMN_GAP * 0.6
        title = f"{edge.producer} to {edge.consumer}: {edge.kind.value}"
        yield (
            f'<path class="edge {edge.kind.value}" d="M {start[0]:.1f} {start[1] + aside:.1f} '
            f"C {start[0] + reach:.1f} {start[1] + aside:.1f} {end[0] - reach:.1f} {end[1]:.1f} "
            f'{end[0] - 5:.1f} {end[1]:.1f} l -5 -3 l 5 3 l -5 3">'
            f"<title>{_safe(title)}</title></path>"
        )


def _boxes(graph: PGraph, places: dict[str, tuple[int, int]], width: float) -> Iterator[str]:
    for name, primitive in graph.by_name().items():
        x, y = _corner(places[name], width)
        yield (
            f'<g><title>{_safe(name)}</title><rect class="box" x="{x:.1f}" y="{y:.1f}" '
            f'width="{width:.1f}" height="{BOX_HEIGHT}" rx="5"/>'
            f'<text class="kind" x="{x + 8:.1f}" y="{y + 15:.1f}">'
            f"{_safe(primitive.kind.value)}</text>"
            f'<text x="{x + 8:.1f}" y="{y + 30:.1f}">{_safe(_cut(name))}</text></g>'
        )


def _edge_order(edge: Edge) -> tuple[str, str, str]:
    return edge.producer, edge.consumer, edge.kind.value


def _cut(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def _safe(text: str) -> str:
    return escape(printable_line(text))
