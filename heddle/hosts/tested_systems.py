"""On which systems Heddle is tested, and what is said on another."""

import platform
import sys
from dataclasses import dataclass
from typing import Final, Self

TESTED: Final = "Linux on x86-64 with glibc, CPython 3.11 to 3.14"
PYTHON_MIN: Final = (3, 11)
PYTHON_MAX: Final = (3, 14)
GLIBC: Final = "glibc"
_X86_64: Final = ("x86_64", "amd64")


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """What kind of system a process runs on.

    Attributes:
        system: as `platform.system` names it: Linux, Darwin, Windows.
        machine: as `platform.machine` names the processor: x86_64, aarch64.
        libc: the C library; "" where it doesn't say, as musl doesn't.
        bits: of a pointer: 32 or 64.
        implementation: CPython, PyPy.
        python: major and minor version.
    """

    system: str
    machine: str
    libc: str
    bits: int
    implementation: str
    python: tuple[int, int]

    @classmethod
    def read(cls) -> Self:
        """Return the facts of this process."""
        return cls(
            system=platform.system(),
            machine=platform.machine(),
            libc=platform.libc_ver()[0],
            bits=64 if sys.maxsize > 1 << 32 else 32,
            implementation=platform.python_implementation(),
            python=sys.version_info[:2],
        )


def untested(facts: SystemFacts) -> tuple[str, ...]:
    """Return what of a system was never tested, each with what to expect; () = it is tested."""
    return tuple(note for note in (_system(facts), _processor(facts), _python(facts)) if note)


def _system(facts: SystemFacts) -> str:
    if facts.system == "Windows":
        return "Windows: file locks and signals are POSIX here; use WSL 2 or a container"
    if facts.system == "Darwin":
        return "macOS: nothing was tried there; limits of memory and cores are not read"
    if facts.system != "Linux":
        return f"{facts.system or 'this system'}: nothing was tried there"
    if facts.libc != GLIBC:
        return "a Linux without glibc, such as Alpine: torch and faiss have no wheels for it"
    return ""


def _processor(facts: SystemFacts) -> str:
    if facts.bits != 64:
        return f"a {facts.bits}-bit Python: torch has no wheels for it; install a 64-bit one"
    if facts.machine.lower() not in _X86_64:
        return f"a {facts.machine} processor: compiled kernels were never timed or checked there"
    return ""


def _python(facts: SystemFacts) -> str:
    named = f"{facts.implementation} {'.'.join(map(str, facts.python))}"
    if facts.implementation != "CPython":
        return f"{named}: torch and faiss have wheels for CPython only"
    if facts.python > PYTHON_MAX:
        return f"{named}: newer than what is tested; torch, faiss or numba may lack wheels for it"
    if facts.python < PYTHON_MIN:
        return f"{named}: Heddle needs Python {'.'.join(map(str, PYTHON_MIN))} or newer"
    return ""
