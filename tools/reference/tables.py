"""Markdown tables."""

from collections.abc import Iterable, Iterator, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, and an empty one behind it."""
    yield _row(heads)
    yield _row(["---"] * len(heads))
    for row in rows:
        yield _row([cell.replace("|", "\\|").replace("\n", " ") for cell in row])
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
