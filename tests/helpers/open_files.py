"""Which descriptors this process has open, so that a test can show that it left none behind."""

import os
from contextlib import suppress
from typing import Final

from tests.helpers.server_state import eventually

WAIT_S: Final = 5.0  # threads that earlier tests have left may open a file and close it again


def open_files() -> set[tuple[int, str]]:
    """Return each descriptor with the name of its file."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists the folder
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
    return found


def check_none_left(before: set[tuple[int, str]]) -> None:
    """Assert that all files opened since are closed again, at the latest in a moment."""
    with suppress(AssertionError):  # the next line says which ones
        eventually(lambda: not open_files() - before, WAIT_S)
    assert not open_files() - before
