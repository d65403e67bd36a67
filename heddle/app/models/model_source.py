"""From a model's name to its directory: a path, an installed model, or a hub name."""

import os
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from heddle.app.models.adapted import MULTIHOP, multihop_directory
from heddle.app.models.smollm2 import SMOLLM2, smollm2_directory
from heddle.core.errors import InputError

ENTRY_POINTS: Final = "heddle.models"
READER: Final = "reader"
READER_EXTRA: Final = "heddle[reader]"  # the extra that brings the model of that name
# Made of a package's files, once, and kept in the cache.
_MADE: Final[Mapping[str, Callable[[], Path]]] = {
    SMOLLM2: smollm2_directory,
    MULTIHOP: multihop_directory,
}


def is_made(name: str) -> bool:
    """Whether it is the name of a model that is made of a package's files."""
    return name in _MADE


def installed_models() -> tuple[str, ...]:
    """Return the names of models that installed distributions offer."""
    return tuple(sorted(entry.name for entry in entry_points(group=ENTRY_POINTS)))


def model_directory(name: str | Path, *, fetch: bool = True) -> Path:
    """Return the directory of a model.

    Args:
        name: a directory, the name of an installed model ("reader"), "smollm2",
            "smollm2-multihop", or "owner/name" on the model hub, which is downloaded to the
            hub's own cache.
        fetch: False = of the hub's models, only those that are in that cache already.

    Raises:
        InputError: there is no such model, it isn't installed, or the hub can't be reached.
    """
    path = Path(os.path.expanduser(name))  # a ~user who is unknown stays as written
    if path.is_dir():
        return path.resolve()
    if path.exists():
        raise InputError(f"model {str(name)!r} is a file; name the directory it lies in")
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == str(name):
            return Path(entry.load()())
    if str(name) in _MADE:
        return _MADE[str(name)]()
    if str(name).count("/") == 1 and not str(name).startswith((".", "/", "~")):
        return _from_hub(str(name), fetch)
    if str(name) == READER:
        raise InputError(
            f"model {READER!r} is not installed: pip install '{READER_EXTRA}' "
            "(in a checkout: pip install ./models/reader)"
        )
    known = ", ".join(installed_models()) or "none"
    raise InputError(
        f"model {str(name)!r} is no directory and no installed model; installed: {known}; "
        f"or give {' or '.join(_MADE)}, owner/name of a model hub repository, or another server's "
        "model: http://HOST:PORT/v1#NAME"
    )


def _from_hub(name: str, fetch: bool) -> Path:
    # Late: the hub client is slow to import and most users never need it.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    patterns = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=not fetch))
    except HFValidationError as error:  # a path, mostly, that is mistyped or of another folder
        raise InputError(
            f"model {name!r} is no directory, and no owner/name of a model hub repository: check "
            "the path"
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"model {name!r} can't be fetched from the model hub ({type(error).__name__}); "
            "check the name and the network, or give a local directory"
            if fetch
            else f"model {name!r} is not on this machine; asking with --model {name} fetches it"
        ) from error
