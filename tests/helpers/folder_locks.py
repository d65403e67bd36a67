"""Whether somebody keeps others from a folder."""

import fcntl
import os
from pathlib import Path


def is_locked(folder: Path) -> bool:
    """Return whether one who wants the folder alone would have to wait."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
