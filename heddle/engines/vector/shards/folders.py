"""The folders of a sharded index: one for each part, held as long as a lane searches it."""

import fcntl
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Final

from heddle.core.own_files import OWNER_ONLY
from heddle.engines.vector.shards.part import SHARDS

log = logging.getLogger(__name__)
TRIES: Final = 3  # to make a folder that others remove at the same moment
_PART: Final = re.compile(r"(\d+)-of-(\d+)")


class HeldFolder:
    """A part's folder, made where it is missing; no process removes it before `release`.

    Raises: OSError: the disk refused.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = _held(folder)

    def release(self) -> None:
        """Let others remove it; ends with the process as well. Called once."""
        os.close(self._descriptor)


def remove_other_divisions(corpus: Path, of: int) -> None:
    """Remove the indexes of a corpus that was divided by another number of parts.

    Those that another server searches stay. What can't be removed is logged and stays, too.
    """
    for folder in sorted((corpus / SHARDS).glob("*-of-*")):
        found = _PART.fullmatch(folder.name)
        if found is None or int(found[2]) == of or folder.is_symlink():
            continue
        try:
            _remove_unless_held(folder)
        except BlockingIOError:
            log.info("%s stays: another server searches it", folder)
        except OSError as error:
            log.warning("%s: this index of an earlier division can't be removed: %s", folder, error)


def _held(folder: Path) -> int:
    """Return a descriptor that holds a folder, made anew where it is removed meanwhile."""
    for _ in range(TRIES):
        folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits for one who removes it
            if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(f"others removed it {TRIES} times")


def _remove_unless_held(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(descriptor)
