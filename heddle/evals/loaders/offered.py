"""Data sets that installed distributions offer, such as `reader-notes` of heddle-reader."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Final

from heddle.core.errors import InputError
from heddle.evals.row import Row, rows_of

ENTRY_POINTS: Final = "heddle.datasets"


def offered_rows(name: str) -> Iterator[Row]:
    """Give the rows of a data set that an installed distribution offers.

    Its entry point is a function without arguments that returns mappings with the fields of
    `loaders.passage_rows`.

    Raises:
        InputError: no installed distribution offers it.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return rows_of(tuple(entry.load()()), name)
    raise InputError(
        f"no installed distribution offers the data set {name!r}; reader-notes comes with "
        "heddle-reader: pip install 'heddle[reader]' (in a checkout: pip install ./models/reader)"
    )
