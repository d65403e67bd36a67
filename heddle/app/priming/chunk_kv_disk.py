"""The disk tier of the chunk KV store: its folder in a corpus, and its budget."""

import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, StorageError
from heddle.core.own_files import OWNER_ONLY

DISK_BYTES_DEFAULT: Final = 1 << 30


def chunk_kv_directory(work: Path) -> Path:
    """Return where a corpus's chunk KV lies in its work directory, a folder for each model."""
    return work / "kv"


def bytes_held(directory: Path) -> int:
    """Return what the files below a directory take; none are there where it isn't."""
    return sum(map(_size, directory.rglob("*")))


def disk_bytes_max(config: ServerConfig) -> int:
    """Return each model's budget on disk: as configured, else 1 GiB, or the present size if larger.

    That is of the model that has most: a caller who names no budget keeps all that was primed
    under a larger one. By the sum over the models, each could double what lies there.
    """
    if config.place is None:
        return 0
    if config.kv_reuse_disk_bytes is not None:
        return config.kv_reuse_disk_bytes
    models = chunk_kv_directory(config.place.work).glob("*")
    return max((DISK_BYTES_DEFAULT, *map(bytes_held, models)))


def check_room(config: ServerConfig, wanted_bytes: int) -> None:
    """Refuse to write more chunk KV than there is room for.

    Args:
        config: of the server that is to write it.
        wanted_bytes: what all of it will take, with what is there already.

    Raises:
        ConfigError: the disk tier is off or too small.
        StorageError: the directory can't be written, or the disk has too little room.
    """
    assert config.place is not None, "chunk KV lies beside a corpus"
    directory, budget = chunk_kv_directory(config.place.work), disk_bytes_max(config)
    if wanted_bytes > budget:
        raise ConfigError(
            f"the chunk KV of this corpus takes about {readable_size(wanted_bytes)} on disk and "
            f"may take {readable_size(budget)}: raise kv_reuse_disk_bytes"
        )
    problem = write_problem(directory)
    if problem:
        raise StorageError(problem)
    free = shutil.disk_usage(directory).free
    missing = wanted_bytes - bytes_held(directory)
    if missing > free:
        raise StorageError(
            f"the chunk KV of this corpus takes about {readable_size(missing)} more on the disk of "
            f"{directory}, which has {readable_size(free)} free: make room there"
        )


def write_problem(directory: Path) -> str:
    """Return why chunk KV can't be written to a directory, which is made; "" where it can."""
    try:
        directory.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return ""
    except OSError as error:
        return f"chunk KV can't be written to {directory}: {error}"


def _size(path: Path) -> int:
    """Return a file's bytes; 0 for a folder, and for what a running server has removed by now."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def readable_size(count: int) -> str:
    """Return a number of bytes as people read it."""
    if count >= 1 << 30:
        return f"{count / (1 << 30):,.1f} GiB"
    return f"{count / (1 << 20):,.1f} MiB"
