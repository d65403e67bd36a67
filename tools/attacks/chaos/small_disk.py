"""A disk that is easily filled: a file system in memory, which only root may mount."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

DISK_MIB: Final = 64


@contextmanager
def small_disk(folder: Path) -> Iterator[str]:
    """Mount a small disk at a new folder; yield why that wasn't possible, "" = it was."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failure = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        failure = str(error)
    try:
        yield failure
    finally:
        if not failure:
            subprocess.run(["umount", str(folder)], check=True)
