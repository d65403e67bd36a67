"""A fixture for tests of other people's clients, which leave their sockets to the collector."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def left_sockets() -> Iterator[None]:
    """Collect them when the test ends, so that their warnings meet no test behind it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
