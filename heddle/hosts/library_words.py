"""What the libraries of this process say they compute with, and whether their device still does.

None is loaded to be asked.
"""

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heddle.core.instruction_sets import KERNEL, check_words, held

KERNEL_MODULE: Final = "heddle.kernels.compiled_kernel"
OPENBLAS_NAMES: Final = (
    "openblas_get_corename",
    "scipy_openblas_get_corename",
    "scipy_openblas_get_corename64_",
)


def library_words() -> dict[str, str]:
    """Return the instruction set that each loaded library computes with, in the library's words."""
    words: dict[str, str] = {}
    if (torch := sys.modules.get("torch")) is not None:
        words["torch"] = torch.backends.cpu.get_cpu_capability()
    if (faiss := sys.modules.get("faiss")) is not None:
        words["faiss"] = faiss.SIMDConfig.get_level_name()
    if (numpy := sys.modules.get("numpy._core._multiarray_umath")) is not None:
        targets = [name for name in numpy.__cpu_dispatch__ if numpy.__cpu_features__[name]]
        words["numpy"] = targets[-1] if targets else "its least"
    if (registry := sys.modules.get("numba.core.registry")) is not None:
        words["numba"] = registry.cpu_target.target_context.codegen().magic_tuple()[1]
    words |= {f"openblas, {home}": core for home, core in _openblas_cores()}
    if (kernel := sys.modules.get(KERNEL_MODULE)) is not None:
        words |= {
            f"{KERNEL}, {dtype}": word for dtype, word in kernel.loaded_instructions().items()
        }
    return words


def check_libraries() -> None:
    """Check that no library of this process computes with more than the process is held to.

    Raises: ConfigError: one does, or the environment names an unknown set.
    """
    if held() is not None:
        check_words(library_words())


def device_problem() -> str:
    """Return why this process can compute on its GPU no more; "" = it can, or it has none.

    After an error of the device itself, such as a read beyond its memory, CUDA refuses all that a
    process asks of it. Too little memory is no such error.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error)
    return ""


def _openblas_cores() -> Iterator[tuple[str, str]]:
    """Yield for each loaded OpenBLAS the folder of its file, and the core that it computes for."""
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # not Linux
        return
    # What was mapped and is deleted meanwhile ends with a word that is no path.
    files = {line.split()[-1] for line in maps if "openblas" in line}
    for file in sorted(file for file in files if Path(file).is_file()):
        library = ctypes.CDLL(file)
        for name in OPENBLAS_NAMES:
            core = getattr(library, name, None)
            if core is not None:
                core.restype = ctypes.c_char_p
                yield Path(file).parent.name, core().decode()
                break
