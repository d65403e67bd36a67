"""Tests that run in a network of their own, which has a loopback device and nothing else."""

import fcntl
import functools
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

INSIDE = "HEDDLE_TEST_OWN_NETWORK"
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS, netdevice(7)
_UP_AND_RUNNING = 0x1 | 0x40


def in_own_network(test: Callable[..., None]) -> Callable[..., None]:
    """Return a test that runs `test` in a pytest below `unshare`, which may be refused."""
    if INSIDE in os.environ:
        return test

    @functools.wraps(test)
    def run_inside(request: pytest.FixtureRequest, **_: Any) -> None:
        if subprocess.run(["unshare", "--net", "--map-root-user", "true"], check=False).returncode:
            pytest.skip("no network namespaces here (unshare)")
        node = f"{request.path}::{test.__name__}"
        done = subprocess.run(
            [
                "unshare",
                "--net",
                "--map-root-user",
                sys.executable,
                "-m",
                "tests.helpers.own_network",
                node,
            ],
            env={**os.environ, INSIDE: "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]

    del run_inside.__wrapped__  # pytest would ask for the fixtures of the test inside
    return run_inside


def _loopback_up() -> None:
    with socket.socket() as sock:
        fcntl.ioctl(sock, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))


if __name__ == "__main__":
    _loopback_up()
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1]]))
