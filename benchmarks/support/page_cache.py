"""Files as a disk gives them, not the memory that the system keeps them in."""

import os
from collections.abc import Iterable
from pathlib import Path


def drop_page_cache(files: Iterable[Path]) -> None:
    """Have files read from the disk again, where the system lets a program say so."""
    if not hasattr(os, "posix_fadvise"):
        print("the page cache can't be dropped here: files may come from memory")
        return
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
