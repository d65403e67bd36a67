"""The compiled kernel behind `compiled_rows`, `token_store` and `layer_steps`.

Built once by the machine, for each number type.
"""

import ctypes
import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from heddle.core.instruction_sets import (
    KERNEL,
    check_words,
    compiler_options,
    multiplies_bfloat16,
)
from heddle.kernels.kernel_library import load_library
from heddle.kernels.operations import TeamRun
from heddle.kernels.quantized_kernel import QuantizedKernel, Team

SOURCE: Final = Path(__file__).with_name("compiled_kernel.c")
HEAD_DIM_MAX: Final = 256
VECTOR_MAX: Final = 16  # floats of the widest vectors
# Queries of a row that the kernel for float32 computes at once. For fewer, torch's attention
# computes only those that there are: up to three times faster for 2 whose keys lie in one place.
TILE_QUERIES: Final = 32
FLAGS: Final = (
    *("-O3", "-ffp-contract=fast", "-std=gnu11", "-shared", "-fPIC"),
    f"-DHEAD_DIM_MAX={HEAD_DIM_MAX}",
)
# Heads of a row that decodes, sharing a KV head, for which a kernel without AMX reads keys once.
FEW_HEADS: Final = 8
FLOAT32_FLAGS: Final = (f"-DQUERIES={TILE_QUERIES}", f"-DFEW={FEW_HEADS}")
# More queries share the values that are transposed; few of them take as many columns as they need.
BFLOAT16_FLAGS: Final = ("-DQUERIES=64", "-DBFLOAT16", f"-DFEW={FEW_HEADS}")


class RowWork(ctypes.Structure):
    """Where the queries and keys of one row are: `struct row` of the C source, field by field."""

    _fields_ = (
        ("first", ctypes.c_int64),
        ("queries", ctypes.c_int64),
        ("last_seen", ctypes.c_void_p),
        ("groups", ctypes.c_int64),
        ("starts", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("factors", ctypes.c_void_p),
    )


class LayerWork(ctypes.Structure):
    """What the threads of a team work on: `struct layer` of the C source."""

    _fields_ = (
        ("query", ctypes.c_void_p),
        ("query_head", ctypes.c_int64),
        ("query_row", ctypes.c_int64),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("pool_head", ctypes.c_int64),
        ("out", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
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


class Norms(ctypes.Structure):
    """States that are added to and normed: `struct norms` of the C source."""

    _fields_ = (
        ("states", ctypes.c_void_p),
        ("added", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("vectors", ctypes.c_int64),
        ("parts", ctypes.c_int64),
        ("token_stride", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("least", ctypes.c_float),
        ("next_task", ctypes.c_int64),
    )


class Gates(ctypes.Structure):
    """Both halves of a gated MLP: `struct gates` of the C source."""

    _fields_ = (
        ("joined", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("tokens", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("next_task", ctypes.c_int64),
    )


class Product(ctypes.Structure):
    """A product of few rows with packed weights: `struct product` of the C source."""

    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("next_task", ctypes.c_int64),
    )


class RowKernel(NamedTuple):
    """The kernel and the threads that run it: torch's own team, whose threads wait for work anyway.

    Other threads would fight for the cores with those, which spin for a while after each operation.
    """

    attend_rows: ctypes.c_void_p
    store_tokens: ctypes.c_void_p
    norm_tokens: ctypes.c_void_p
    gate_tokens: ctypes.c_void_p
    run_on_team: Team
    quantized: QuantizedKernel
    together: TeamRun
    multiply_few: ctypes.c_void_p | None = None  # in bfloat16 alone
    panel: int = 0  # outputs that lie together where it multiplies

    def run(self, work: LayerWork, threads: int) -> None:
        """Compute what `work` describes. Mutates: its `out`."""
        self._run(self.attend_rows, work, threads)

    def store(self, tokens: NewTokens, threads: int) -> None:
        """Rotate new queries and keys, and store keys and values. Mutates: `query` and the pool."""
        self._run(self.store_tokens, tokens, threads)

    def norm(self, norms: Norms, threads: int) -> None:
        """Add what a layer gave to states, and norm them. Mutates: `states` and `out`."""
        self._run(self.norm_tokens, norms, threads)

    def gate(self, gates: Gates, threads: int) -> None:
        """Multiply the second half by the first one's SiLU. Mutates: `out`."""
        self._run(self.gate_tokens, gates, threads)

    def multiply(self, product: Product, threads: int) -> None:
        """Multiply few rows with packed weights. Mutates: its `out`."""
        assert self.multiply_few is not None, "only the kernel for bfloat16 multiplies"
        self._run(self.multiply_few, product, threads)

    def _run(
        self,
        function: ctypes.c_void_p,
        work: LayerWork | NewTokens | Norms | Gates | Product,
        threads: int,
    ) -> None:
        work.next_task = 0
        self.run_on_team(function, ctypes.byref(work), threads, 0)


class FoundKernel(NamedTuple):
    """The kernel, or why there is none; no reason: it isn't meant for this."""

    kernel: RowKernel | None
    problem: str = ""


_instructions: dict[str, str] = {}  # of the kernels that were loaded


@functools.cache
def find_row_kernel(*, in_bfloat16: bool = False) -> FoundKernel:
    """Return the kernel, compiled now if it hasn't been on this machine; ready within seconds.

    In bfloat16 it is for CPUs that multiply it in hardware: others are several times faster in
    float32.

    Raises: ConfigError: it was compiled for more than this process is held to.
    """
    if in_bfloat16 and not multiplies_bfloat16():
        return FoundKernel(None)
    try:
        kernel = load_kernel(in_bfloat16=in_bfloat16)
    except subprocess.SubprocessError as error:
        return FoundKernel(None, f"its C source doesn't compile: {_reason(error)}")
    except (OSError, AttributeError) as error:
        return FoundKernel(None, str(error))
    if kernel is None:
        return FoundKernel(None, "the system doesn't let this process use AMX")
    return FoundKernel(kernel)


def load_kernel(*, in_bfloat16: bool, flags: Sequence[str] = ()) -> RowKernel | None:
    """Return the kernel of a number type; None: the system doesn't let this process run it.

    Args:
        in_bfloat16: whether models compute in bfloat16; else in float32.
        flags: more of the compiler's; `-march` among them takes the place of this CPU's.
    Raises:
        OSError, AttributeError: there is no compiler, or torch's threads aren't known.
        subprocess.SubprocessError: the source doesn't compile.
    """
    own = BFLOAT16_FLAGS if in_bfloat16 else FLOAT32_FLAGS
    library = load_library(SOURCE, (*compiler_options(), *FLAGS, *own, *flags))
    if not flags:
        library.instructions.restype = ctypes.c_char_p
        word = library.instructions().decode()
        _instructions["bfloat16" if in_bfloat16 else "float32"] = word
        check_words({KERNEL: word})
    openmp = ctypes.CDLL(str(_torch_openmp()))
    team: Team = openmp.GOMP_parallel
    if not library.can_run():
        return None
    names = ("attend_rows", "store_tokens", "norm_tokens", "gate_tokens", "run_operations")
    attend, store, norm, gate, run = (ctypes.cast(library[name], ctypes.c_void_p) for name in names)
    quantized = QuantizedKernel.of(library, team)
    together = TeamRun(run, ctypes.cast(openmp.GOMP_barrier, ctypes.c_void_p), team)
    kernel = RowKernel(attend, store, norm, gate, team, quantized, together)
    if not in_bfloat16:
        return kernel
    multiply = ctypes.cast(library.multiply_few, ctypes.c_void_p)
    return kernel._replace(multiply_few=multiply, panel=library.panel_outputs())


def loaded_instructions() -> dict[str, str]:
    """Return the widest instructions that the loaded kernels were compiled for, by number type."""
    return dict(_instructions)


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
    # Five fields stand before a name, which may hold blanks.
    return {Path(line.split(maxsplit=5)[-1]) for line in maps}


def _reason(error: subprocess.SubprocessError) -> str:
    said = getattr(error, "stderr", None)
    lines = said.decode(errors="replace").splitlines() if said else []
    return next((line for line in lines if "error" in line), str(error))
