"""The vector instructions that this process computes with: the CPU's own, or fewer.

A process is held to an older CPU's instructions so that one machine can show what another one
takes. Libraries choose their instructions when they are loaded, by variables of the environment
that lanes and other child processes inherit. So a process is held by being started anew with
`held_environment`; no option changes it later. (ADR 52)
"""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError, InputError

VARIABLE: Final = "HEDDLE_HELD"
ROOT: Final = Path("/")
# The sets that say how fast a CPU computes models and searches.
TELLING_FLAGS: Final = (
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
)
_FAST_BFLOAT16: Final = ("amx_bf16", "avx512_bf16")
_AMX: Final = ("amx_",)
_BEYOND_AVX2: Final = (*_AMX, "avx512", "avx_vnni", "avx_ifma", "avx_ne_convert", "avx10")
KERNEL: Final = "compiled kernel"  # Heddle's own, among the libraries


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """Instructions that a process may be held to, and what holds each library to them.

    Args:
        name: what `--held` calls it.
        needs: flags of the CPUs that have it.
        withheld: how the flags begin of what is beyond it.
        compiler: options that hold a C compiler to it.
        variables: of the environment, and their values.
        numpy_withheld: how the names begin of what NumPy dispatches to beyond it.
        words: what each library may say it computes with; others aren't asked.
    """

    name: str
    needs: frozenset[str]
    withheld: tuple[str, ...]
    compiler: tuple[str, ...]
    variables: Mapping[str, str]
    numpy_withheld: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]


AVX2: Final = InstructionSet(
    "avx2",
    frozenset({"avx2", "fma", "f16c", "bmi2"}),
    _BEYOND_AVX2,
    ("-march=haswell",),
    {
        "ATEN_CPU_CAPABILITY": "avx2",
        "FAISS_SIMD_LEVEL": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "NUMBA_CPU_FEATURES": "+avx2,+fma",
        "NUMBA_CPU_NAME": "haswell",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    ("AVX512", "X86_V4"),
    {
        "torch": ("AVX2",),
        "faiss": ("AVX2",),
        "numba": ("haswell",),
        "numpy": ("X86_V3", "AVX2"),
        "openblas": ("Haswell",),
        KERNEL: ("avx2",),
    },
)
AVX512: Final = InstructionSet(
    "avx512",
    frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    _AMX,
    ("-march=native", "-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8"),
    {
        "ATEN_CPU_CAPABILITY": "avx512",
        "FAISS_SIMD_LEVEL": "AVX512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "NUMBA_CPU_FEATURES": "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl",
        "NUMBA_CPU_NAME": "skylake-avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
        "OPENBLAS_CORETYPE": "SkylakeX",
    },
    (),
    {
        "torch": ("AVX512",),
        "faiss": ("AVX512",),
        "numba": ("skylake-avx512",),
        "openblas": ("SkylakeX",),
        KERNEL: ("avx512", "avx512_bf16"),
    },
)
SETS: Final = {one.name: one for one in (AVX2, AVX512)}


def held() -> InstructionSet | None:
    """Return what this process is held to; None = all that its CPU has.

    Raises:
        ConfigError: the variable names no such set.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    if name not in SETS:
        raise ConfigError(f"{VARIABLE} must be one of {', '.join(SETS)}, got {name!r}")
    return SETS[name]


def machine_flags(root: Path = ROOT) -> frozenset[str]:
    """Return the flags of the CPU as the system names them; none where it doesn't (not Linux)."""
    try:
        lines = (root / "proc/cpuinfo").read_text("ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    line = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def flags_in_force(root: Path = ROOT) -> frozenset[str]:
    """Return the flags of the CPU that this process may use. Raises: ConfigError: as `held`."""
    return frozenset(flag for flag in machine_flags(root) if not is_withheld(flag))


def multiplies_bfloat16(flags: frozenset[str] | None = None) -> bool:
    """Whether a CPU multiplies bfloat16 in hardware: matrices (AMX), or pairs (AVX512-BF16).

    Args:
        flags: of the CPU; None: those that this process may use.
    Raises: ConfigError: as `held`.
    """
    return not (flags_in_force() if flags is None else flags).isdisjoint(_FAST_BFLOAT16)


def is_withheld(flag: str) -> bool:
    """Whether this process must not use an instruction set. Raises: ConfigError: as `held`."""
    level = held()
    return level is not None and flag.startswith(level.withheld)


def holds_back(level: InstructionSet) -> bool:
    """Whether a process held to it has less than this one."""
    return any(flag.startswith(level.withheld) for flag in flags_in_force())


def compiler_options() -> tuple[str, ...]:
    """Return the options that name the CPU for a C compiler. Raises: ConfigError: as `held`."""
    level = held()
    return ("-march=native",) if level is None else level.compiler


def held_environment(name: str) -> dict[str, str]:
    """Return the environment of a child process that is held to an instruction set.

    Raises:
        InputError: there is no such set, or this CPU doesn't have it.
    """
    if name not in SETS:
        raise InputError(f"a process can be held to {' or '.join(SETS)}, not to {name!r}")
    level = SETS[name]
    lacking = level.needs - machine_flags()
    if lacking:
        raise InputError(
            f"this CPU can't be held to {name}: it has no {', '.join(sorted(lacking))}"
        )
    beyond = [target for target in _numpy_targets() if target.startswith(level.numpy_withheld)]
    numpy = {"NPY_DISABLE_CPU_FEATURES": " ".join(beyond)} if beyond else {}
    kept = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    return {**kept, **level.variables, **numpy, VARIABLE: name}


def check_words(words: Mapping[str, str]) -> None:
    """Check that libraries compute with what this process is held to.

    Args:
        words: what each of them says it computes with, by its name; behind a comma, of which part.
    Raises:
        ConfigError: one doesn't follow, or as `held`.
    """
    level = held()
    if level is None:
        return
    wrong = [
        f"{name} says {word!r}"
        for name, word in words.items()
        if word not in level.words.get(name.partition(",")[0], (word,))
    ]
    if wrong:
        raise ConfigError(
            f"this process is held to {level.name}, but {'; '.join(wrong)}: start it by `heddle "
            f"bench NAME --held {level.name}`, which sets more than {VARIABLE}"
        )


_VARIABLES: Final = {"NPY_DISABLE_CPU_FEATURES", *AVX2.variables, *AVX512.variables}


def _numpy_targets() -> tuple[str, ...]:
    """Return the sets that NumPy has code for beside its least; it warns of names of others."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    return tuple(core.__cpu_dispatch__)
