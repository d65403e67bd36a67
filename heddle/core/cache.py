"""Where Heddle keeps what can be made again: outside every work tree."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heddle.core.own_files import OWNER_ONLY


def cache_root() -> Path:
    """Return where the cache is: $HEDDLE_CACHE, else in the user's cache folder."""
    base = os.environ.get("HEDDLE_CACHE")
    if base:
        return Path(base)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "heddle"


def cache_directory(*parts: str) -> Path:
    """Return (and make) a folder of the cache; what is made is this user's alone."""
    directory = cache_root()
    for part in ("", *parts):
        directory = directory / part
        directory.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    return directory


def read_json(path: Path) -> object:
    """Return a JSON file's content; None where it is missing or torn."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def write_json(path: Path, value: object) -> None:
    """Write a JSON file in one piece: readers see the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, so that of several processes one makes what all of them want.

    Raises: OSError: the file can't be made.
    """
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
