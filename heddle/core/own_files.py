"""Files that only this user can have written: what may be loaded as code."""

import os
import stat
from pathlib import Path
from typing import Final

OWNER_ONLY: Final = 0o700
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def is_own(status: os.stat_result) -> bool:
    """Whether a file or folder is this user's or root's, and no other user may write to it."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & _OTHERS_WRITE


def own_folder(folder: Path) -> Path | None:
    """Return a folder where only this user can write, made if need be; None: others can.

    One of this user's own is closed to the others first. A link is never taken.

    Raises: OSError: it can't be made.
    Mutates: the folder's mode.
    """
    folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return None
    if status.st_uid == os.geteuid() and status.st_mode & _OTHERS_WRITE:
        folder.chmod(OWNER_ONLY)
        status = folder.lstat()
    return folder if is_own(status) else None
