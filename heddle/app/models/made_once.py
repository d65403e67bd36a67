"""Directories of models that are made once and kept in the cache."""

import tempfile
from collections.abc import Callable
from pathlib import Path


def made_once(directory: Path, write: Callable[[Path], None]) -> None:
    """Have a directory filled beside its place, and renamed once it is whole.

    Nothing is done where it is there already; a `write` that fails leaves nothing behind.
    """
    if directory.is_dir():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as folder:
        part = Path(folder) / "model"
        part.mkdir()
        write(part)
        try:
            part.rename(directory)
        except OSError:  # another process was first
            if not directory.is_dir():
                raise
