"""The compiled kernel behind `compiled_rows` and `token_store`: built once, by the machine."""

import ctypes
import functools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from heddle.engines.llm.attention.kernel_library import load_library

SOURCE: Final = Path(__file__).with_name("compiled_kernel.c")
HEAD_DIM_MAX: Final = 256
# Queries of a row that the kernel computes at once. For fewer, torch's attention computes only
# those that there are: up to three times faster for 2 queries whose keys lie in one place.
TILE_QUERIES: Final = 32
FLAGS: Final = (
    *("-O3", "-march=native", "-ffp-contract=fast", "-std=gnu11", "-shared", "-fPIC"),
    *(f"-DQUERIES={TILE_QUERIES}", f"-DHEAD_DIM_MAX={HEAD_DIM_MAX}"),
)


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
        library = load_library(SOURCE, FLAGS)
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
