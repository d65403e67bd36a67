"""A PostgreSQL server that is installed on this machine and speaks TLS, for tests.

The one of the package index is built without.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.certificates import Certificate

PLACES = "/usr/lib/postgresql"
USER = "postgres"  # of the system, as the server refuses to run as root
PASSWORD = "right-secret"
# Passwords over TLS, a certificate for the user "localhost", and nothing without TLS.
RULES = (
    "local all all trust\n"
    "hostssl all localhost 127.0.0.1/32 cert\n"
    "hostssl all all 127.0.0.1/32 scram-sha-256\n"
)


@dataclass(frozen=True)
class TlsServer:
    """A server that runs."""

    socket_folder: Path
    port: int

    def url(self, user: str = "postgres", password: str = PASSWORD, **options: object) -> str:
        """Return the URL of its first database by TCP."""
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/postgres?{asked}"

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as the superuser; return its rows."""
        import psycopg

        where = f"host={self.socket_folder} port={self.port} user=postgres dbname=postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()


@contextmanager
def tls_server(own: Certificate, clients: Certificate) -> Iterator[TlsServer]:
    """Start a server with a certificate, which takes that of a client; stop it at the end."""
    programs = sorted(Path(PLACES).glob("*/bin/pg_ctl"))
    if not programs:
        pytest.skip(f"PostgreSQL with TLS is not installed ({PLACES})")
    programs_folder = programs[-1].parent
    # The path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="heddle-tls-", dir="/tmp"))
    data = folder / "data"

    def run(program: str, *arguments: object) -> None:
        as_user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run(
            [programs_folder / program, *map(str, arguments)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **as_user,
        )

    def put(name: str, content: bytes) -> Path:
        path = folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    files = [
        put("server.pem", own.certificate.read_bytes()),
        put("server.key", own.key.read_bytes()),
        put("clients.pem", clients.certificate.read_bytes()),
        put("rules", RULES.encode()),
        put("password", PASSWORD.encode()),
    ]
    try:
        _give(folder, *files)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        run("initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", files[4])
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": folder,
            "hba_file": files[3],
            "ssl": "on",
            "ssl_cert_file": files[0],
            "ssl_key_file": files[1],
            "ssl_ca_file": files[2],
            "fsync": "off",
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield TlsServer(folder, port)
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "fast", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give(*paths: Path) -> None:
    if os.geteuid() == 0:
        for path in paths:
            shutil.chown(path, USER, USER)
