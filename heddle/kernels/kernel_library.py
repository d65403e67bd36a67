"""The library of a C source: compiled once by this machine, loaded only where it is our own.

Users who can write where libraries are kept could have their code run by all who load them. So a
library is loaded from a folder and a file that are this user's (or root's) and that no other user
may write to. Where the cache is not such a folder, it is compiled for this process alone.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heddle.core.cache import cache_root
from heddle.core.own_files import OWNER_ONLY, is_own, own_folder

COMPILERS: Final = ("cc", "gcc", "clang")
COMPILING_S_MAX: Final = 120.0
FOLDER: Final = "kernels"
log = logging.getLogger(__name__)


def c_compiler() -> str | None:
    """Return the C compiler's command: $CC, else the first of the usual names; None: there is none.

    $CC may be several words, such as "ccache gcc".
    """
    try:
        named = shlex.split(os.environ.get("CC", ""))
    except ValueError:  # an open quotation mark
        return None
    commands = [named] if named else [[name] for name in COMPILERS]
    for name, *options in commands:
        if path := shutil.which(name):
            return shlex.join((path, *options))
    return None


def load_library(source: Path, flags: Sequence[str]) -> ctypes.CDLL:
    """Return a C source's library, compiled now if it hasn't been on this machine.

    What the source includes lies beside it.

    Raises:
        OSError: there is no compiler, or no room for the library.
        subprocess.SubprocessError: the source doesn't compile.
    """
    compiler = c_compiler()
    if compiler is None:
        raise OSError("there is no C compiler: install gcc or clang, or set CC")
    command = (*shlex.split(compiler), *flags, str(source))
    texts = [path.read_text() for path in (source, *sorted(source.parent.glob("*.h")))]
    made_of = (*texts, *command[:-1], platform.machine(), _cpu_features())
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:16]
    name = f"row-attention-{digest}.so"
    folder, problem = _kept_folder(cache_root() / FOLDER)
    if folder is not None:
        return _loaded(folder / name, command)
    log.warning("%s; the kernel is compiled for this process alone", problem)
    with tempfile.TemporaryDirectory(prefix="heddle-kernel-") as passing:
        return _loaded(Path(passing) / name, command)


def _kept_folder(folder: Path) -> tuple[Path | None, str]:
    """Return the folder to keep libraries in, or None and why it can't be."""
    try:
        own = own_folder(folder)
    except OSError as error:
        return None, f"{folder} can't be made: {error.strerror}"
    if own is None:
        return None, f"others can write to {folder}: set HEDDLE_CACHE to a folder of your own"
    if not os.access(own, os.W_OK):
        return None, f"{folder} can't be written to"
    return own, ""


def _loaded(library: Path, command: Sequence[str]) -> ctypes.CDLL:
    if not _is_loadable(library):
        _compile(library, command)
    # The folder is held open: what is checked is what is loaded, also where its name leads
    # elsewhere meanwhile. No other user can change what lies in it.
    handle = os.open(library.parent, os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not is_own(os.fstat(handle)):
            raise OSError(f"{library.parent} was changed by somebody else meanwhile")
        return ctypes.CDLL(f"/proc/self/fd/{handle}/{library.name}")
    finally:
        os.close(handle)


def _is_loadable(library: Path) -> bool:
    try:
        status = library.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and is_own(status)


def _compile(library: Path, command: Sequence[str]) -> None:
    started_s = time.perf_counter()
    handle, part = tempfile.mkstemp(prefix=library.stem, suffix=".part", dir=library.parent)
    os.close(handle)
    try:
        made = [*command, "-o", part]
        subprocess.run(made, check=True, capture_output=True, timeout=COMPILING_S_MAX)
        os.chmod(part, OWNER_ONLY)
        os.replace(part, library)
    finally:
        Path(part).unlink(missing_ok=True)
    log.info("compiled %s in %.1f s", library, time.perf_counter() - started_s)


def _cpu_features() -> str:
    """Return what distinguishes this CPU from others that share the cache; empty if unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
