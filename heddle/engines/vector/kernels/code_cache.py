"""Where Numba keeps compiled code: beside the source, else in Heddle's cache."""

import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numba

from heddle.core.cache import cache_root
from heddle.core.errors import ConfigError
from heddle.core.own_files import own_folder

log = logging.getLogger(__name__)
FOLDER: Final = "numba"
SETTING: Final = "NUMBA_CACHE_DIR"


def keep_compiled_code() -> None:
    """Have Numba keep compiled code in Heddle's cache, where it finds no other place.

    It takes $NUMBA_CACHE_DIR, the folder of the source, or the user's cache folder. Where none can
    be written to, as for a service without a home, it compiles nothing that is to be kept.

    Raises: ConfigError: neither the cache nor the folder for temporary files can be written to.
    Mutates: $NUMBA_CACHE_DIR, for this process and those that it starts.
    """
    if _finds_a_place():
        return
    temporary = Path(tempfile.gettempdir()) / f"heddle-{FOLDER}-{os.geteuid()}"
    os.environ[SETTING] = str(first_own((cache_root() / FOLDER, temporary)))
    numba.config.reload_config()


def _finds_a_place() -> bool:
    try:
        numba.njit(cache=True)(_nothing)
    except RuntimeError:
        return False
    return True


def first_own(folders: Iterable[Path]) -> Path:
    """Return the first folder that only this user can write to, as code is loaded from it.

    Raises: ConfigError: none is.
    """
    for folder in folders:
        try:
            own = own_folder(folder)
        except OSError as error:
            log.info("no compiled code is kept in %s: %s", folder, error.strerror)
            continue
        if own is not None and os.access(own, os.W_OK):
            return own
    raise ConfigError(
        "compiled code can be kept nowhere: set HEDDLE_CACHE to a folder of this user"
    )


def _nothing() -> None:
    """Stand for what is to be compiled; never is."""
