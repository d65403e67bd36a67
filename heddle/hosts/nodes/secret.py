"""The secret of a cluster: a server that has it may run lanes, which is to run programs."""

import os
import secrets
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError

SECRET_CHARACTERS_MIN: Final = 32
_OTHERS: Final = 0o077


def read_secret(path: Path, field: str = "cluster_secret_file") -> bytes:
    """Return the secret that a file holds.

    Args:
        path: a file that no other user can read.
        field: the setting that names it, for messages.
    Raises: ConfigError: it can't be read, others can read it, or the secret is too short.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read(1 << 16).strip()
    except OSError as error:
        raise ConfigError(
            f"{field}: {path} can't be read ({error.strerror}); `heddle agent --new-secret {path}` "
            "makes one, to be copied to each node"
        ) from error
    if mode & _OTHERS:
        raise ConfigError(f"{field}: other users can read {path}: chmod 600 {path}")
    if len(secret) < SECRET_CHARACTERS_MIN:
        raise ConfigError(
            f"{field}: the secret in {path} has {len(secret)} characters, at least "
            f"{SECRET_CHARACTERS_MIN} are needed"
        )
    return secret


def write_secret(path: Path) -> None:
    """Make a secret and write it to a new file that only this user can read.

    Raises: ConfigError: the file is there already, or can't be written.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError(f"--new-secret: {path} can't be made ({error.strerror})") from error
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(SECRET_CHARACTERS_MIN) + "\n")
