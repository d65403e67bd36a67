"""The key that this user's commands send to a running server."""

import os
from pathlib import Path
from typing import Final

from heddle.cli.running.advert import FILE_NAME
from heddle.core.errors import ConfigError

KEY_VARIABLE: Final = "HEDDLE_API_KEY"


def own_key() -> str:
    """Return $HEDDLE_API_KEY; "" = there is none.

    Raises:
        ConfigError: no header can hold it.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{KEY_VARIABLE} holds a character that no key has: copy the key anew")
    return key


def key_problem(directory: Path, key: str) -> str:
    """Return why a corpus's server, which asks for a key, can't be sent this one; "" = it can.

    Another user could write a server.json that names a port of their own, to be sent the key.
    """
    if not key:
        return f"it asks for a key: set {KEY_VARIABLE}"
    path = directory / FILE_NAME
    try:
        owner = path.stat().st_uid
    except OSError:  # the server has removed it, at its end
        return f"{path} is no longer there"
    if owner not in (0, os.geteuid()):
        return f"{path} is another user's, who may not get {KEY_VARIABLE}"
    return ""
