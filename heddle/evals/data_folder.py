"""Where the real data lies; it is too large to be part of the repository."""

import os
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError

VARIABLE: Final = "HEDDLE_DATA"
_CHECKOUT: Final = Path(__file__).resolve().parents[2]


def data_directory() -> Path:
    """Return the folder of the real data: $HEDDLE_DATA, else `../shared/data` of the checkout.

    Raises:
        InputError: it isn't there.
    """
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else _CHECKOUT.parent / "shared" / "data"
    if not folder.is_dir():
        raise InputError(f"the data folder {folder} isn't there; set {VARIABLE} to where it is")
    return folder


def data_file(name: str) -> Path:
    """Return the path of a data file, such as "wiki_single".

    Raises:
        InputError: the folder or the file isn't there.
    """
    path = data_directory() / f"{name}.jsonl.gz"
    if not path.is_file():
        raise InputError(f"the data file {path} isn't there; set {VARIABLE} to the folder with it")
    return path
