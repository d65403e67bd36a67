"""The compiled kernel behind `compiled_rows` and `token_store`: built once, by the machine."""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from heddle.core.cache import cache_directory

SOURCE: Final = Path(__file__).with_name("compiled_kernel.c")
COMPILERS: Final = ("cc", "gcc", "clang")
COMPILING_S_MAX: Final = 120.0
HEAD_DIM_MAX: Final = 256
# Queries of a row that the kernel computes at once. For fewer, torch's attention computes only
# those that there are: up to three times faster for 2 queries whose keys lie in one place.
TILE_QUERIES: Final = 32
FLAGS: Final = (
    *("-O3", "-march=native", "-ffp-contract=fast", "-std=gnu11", "-shared", "-fPIC"),
    *(f"-DQUERIES={TILE_QUERIES}", f"-DHEAD_DIM_MAX={HEAD_DIM_MAX}"),
)
log = logging.getLogger(__name__)


class Work(ctypes.Structure):
    """What the threads of a team work on: `struct rows` of the C source, field by field."""

    _fields_ = (
        ("query", ctypes.c_void_p),
        ("query_head", ctypes.c_int64),
        ("query_row", ctypes.c_int64),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("pool_head", ctypes.c_int64),
        ("last_seen", ctypes.c_void_p),
        ("groups", ctypes.c_int64),
        ("starts", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("factors", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("queries", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("scaling", ctypes.c_float),
        ("next_task", ctypes.c_int64),
    )


class NewTokens(ctypes.Structure):
    """The new queries, keys and values of a layer: `struct tokens` of the C source."""

    _fields_ = (
        ("joined", ctypes.c_void_p),
        ("factors", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("query", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("pool_head", ctypes.c_int64),
        ("tokens", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("next_task", ctypes.c_int64),
    )


class RowKernel(NamedTuple):
    """The kernel and the threads that run it: torch's own team, whose threads wait for work anyway.

    Other threads would fight for the cores with those, which spin for a while after each operation.
    """

    attend_rows: ctypes.c_void_p
    store_tokens: ctypes.c_void_p
    run_on_team: Callable[[ctypes.c_void_p, object, int, int], None]

    def run(self, work: Work, threads: int) -> None:
        """Compute what `work` describes. Mutates: its `out`."""
        work.next_task = 0
        self.run_on_team(self.attend_rows, ctypes.byref(work), threads, 0)

    def store(self, tokens: NewTokens, threads: int) -> None:
        """Rotate new queries and keys, and store keys and values. Mutates: `query` and the pool."""
        tokens.next_task = 0
        self.run_on_team(self.store_tokens, ctypes.byref(tokens), threads, 0)


class FoundKernel(NamedTuple):
    """The kernel, or why there is none."""

    kernel: RowKernel | None
    problem: str = ""


@functools.cache
def find_row_kernel() -> FoundKernel:
    """Return the kernel, compiled now if it hasn't been on this machine; ready within seconds."""
    try:
        library = ctypes.CDLL(str(_compiled()))
        team = ctypes.CDLL(str(_torch_openmp())).GOMP_parallel
    except subprocess.SubprocessError as error:
        return FoundKernel(None, f"its C source doesn't compile: {_reason(error)}")
    except (OSError, AttributeError) as error:
        return FoundKernel(None, str(error))
    attend, store = (
        ctypes.cast(function, ctypes.c_void_p)
        for function in (library.attend_rows, library.store_tokens)
    )
    return FoundKernel(RowKernel(attend, store, team))


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


def _compiled() -> Path:
    """Return the library, compiled if need be.

    Raises: OSError: there is no compiler, or no room for the library. subprocess.SubprocessError.
    """
    compiler = c_compiler()
    if compiler is None:
        raise OSError("there is no C compiler: install gcc or clang, or set CC")
    made_of = (SOURCE.read_text(), compiler, *FLAGS, platform.machine(), _cpu_features())
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:16]
    library = cache_directory("kernels") / f"row-attention-{digest}.so"
    if not library.is_file():
        started_s = time.perf_counter()
        part = library.with_name(f"{library.name}.{os.getpid()}.part")
        command = [*shlex.split(compiler), *FLAGS, str(SOURCE), "-o", str(part)]
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILING_S_MAX)
        part.replace(library)
        log.info("compiled %s in %.1f s", library, time.perf_counter() - started_s)
    return library


def _cpu_features() -> str:
    """Return what distinguishes this CPU from others that share the cache; empty if unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "")


def _torch_openmp() -> Path:
    """Return the OpenMP library that torch has loaded.

    Raises: OSError: it isn't GNU's, or several are loaded and torch's is not recognised.
    """
    import torch

    loaded = {path for path in _loaded_files() if path.name.startswith("libgomp")}
    # The system names files by their true place, Python by the links that lead there.
    home = Path(torch.__file__).resolve().parent
    own = {path for path in loaded if path.is_relative_to(home)} or loaded
    if len(own) != 1:
        raise OSError("torch's threads are not those of one GNU OpenMP library")
    return own.pop()


def _loaded_files() -> set[Path]:
    """Return the files that are mapped into this process."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {Path(line.split()[-1]) for line in maps}


def _reason(error: subprocess.SubprocessError) -> str:
    said = getattr(error, "stderr", None)
    lines = said.decode(errors="replace").splitlines() if said else []
    return next((line for line in lines if "error" in line), str(error))
