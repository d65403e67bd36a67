"""The depths of `heddle profile --together` as a table."""

from collections.abc import Callable, Iterator
from typing import Final

from heddle.app.embedding_depths import DepthTable, FoundDepths

# The rows of WindVE's Table III.
ROWS: Final[tuple[tuple[str, Callable[[FoundDepths], int]], ...]] = (
    ("linear regression", lambda depths: depths.regression),
    ("stress test", lambda depths: depths.stress_test),
    ("fine-tuned together", lambda depths: depths.fine_tuned),
)


def table_lines(table: DepthTable) -> Iterator[str]:
    """Yield the depths under one SLO: a row for each way to find them, a column for each lane."""
    title = f"queries within {table.slo_s * 1e3:g} ms"
    first = max(len(title), *(len(name) for name, _ in ROWS))
    yield "  ".join([f"{title:<{first}}", *table.lanes])
    for name, depth in ROWS:
        cells = (f"{depth(found):>{len(lane)}}" for lane, found in table.lanes.items())
        yield "  ".join([f"{name:<{first}}", *cells])
