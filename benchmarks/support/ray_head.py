"""A Ray cluster on this machine: its head is its only node, can be lost, and can come back."""

import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self
from unittest.mock import patch

import psutil

from heddle.core.cache import cache_root
from heddle.core.errors import InternalError

STARTED: Final = "Ray runtime started"
GONE_S_MAX: Final = 20.0
_RAY: Final = (sys.executable, "-m", "ray.scripts.scripts")
_SMALL: Final = ("--num-cpus=1", "--include-dashboard=false", "--object-store-memory=80000000")


@contextmanager
def ray_token() -> Iterator[None]:
    """Give this process, and those that it starts, a token of Ray until the block ends."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with patch.dict(os.environ, token):
        yield


class RayHead:
    """The head of a cluster; it runs once this returns, with this process's environment.

    Attributes:
        folder: where its files are, and the home of all that it starts.

    Raises:
        InternalError: it doesn't start.
    """

    def __init__(self) -> None:
        # A short path: the names of sockets in it may have 107 bytes.
        self._kept = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        self.folder = self._kept.name
        self._port = _free_port()
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Its address, HOST:PORT."""
        return f"{self._host}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether it is there."""
        return self._process.poll() is None

    def start(self) -> None:
        """Start it, each time with the same port.

        Raises:
            InternalError: it doesn't start.
        """
        own = (f"--port={self._port}", f"--temp-dir={self.folder}")
        self._process = subprocess.Popen(
            [*_RAY, "start", "--head", "--block", *_SMALL, *own],
            env={
                **os.environ,
                "RAY_USAGE_STATS_ENABLED": "0",
                "HOME": self.folder,
                "HEDDLE_CACHE": str(cache_root()),  # or lanes would compile their kernels anew
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        said = ""
        while STARTED not in said and (line := self._process.stdout.readline()):
            said += line
        host = re.search(r"Local node IP: (\S+)", said)
        if host is None or STARTED not in said:
            self.kill()
            raise InternalError(f"ray start --head: {said}")
        self._host = host[1]

    def kill(self) -> None:
        """Kill all of its processes at once, as when its machine is lost; agents are not of it."""
        with suppress(psutil.NoSuchProcess):
            head = psutil.Process(self._process.pid)
            parts = [head, *head.children(recursive=True)]
            for part in parts:
                with suppress(psutil.NoSuchProcess):
                    part.kill()
            psutil.wait_procs(parts[1:], GONE_S_MAX)
        self._ended()

    def close(self) -> None:
        """Stop it for good."""
        self._process.terminate()
        self._ended()
        self._kept.cleanup()

    def _ended(self) -> None:
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _free_port() -> int:
    with socket.create_server(("", 0)) as listening:
        return int(listening.getsockname()[1])
