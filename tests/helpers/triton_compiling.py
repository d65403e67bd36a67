"""Compiles Triton's kernels for GPUs. None is needed for that.

The interpreter takes what the compiler refuses. Tests run interpreted where there is no GPU, so the
kernels are compiled in another process.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def compiled(
    kernel: Any,
    capability: int,
    types: Mapping[str, str],
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    **sizes: int | bool,
) -> Any:
    """Compile a kernel for a GPU; call it where kernels aren't interpreted.

    Args:
        kernel: the function below `triton.jit`.
        capability: of the GPU: 80, 90.
        types: of its arguments. Others are strides (`…_stride`), or pointers to bfloat16.
        num_warps: of a program.
        num_stages: of its loops' pipelines.
        sizes: its constants.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    names = list(kernel.arg_names)
    unknown = (types.keys() | sizes.keys()) - set(names)
    assert not unknown, f"no arguments of the kernel: {unknown}"
    signature = {name: _type(name, types, sizes) for name in names}
    constants = {(names.index(name),): size for name, size in sizes.items()}
    # What the launcher finds by itself: memory begins at multiples of 16, and strides are some.
    attributes = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(names)
        if signature[name].startswith("*") or name.endswith("_stride")
    }
    source = ASTSource(kernel, signature, constants, attributes)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    return compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def output_uninterpreted(program: str, cache: Path) -> str:
    """Return what a Python program that compiles kernels prints; it has to end well."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment | {"TRITON_CACHE_DIR": str(cache)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _type(name: str, types: Mapping[str, str], sizes: Mapping[str, int | bool]) -> str:
    if name in sizes:
        return "constexpr"
    return types.get(name, "i32" if name.endswith("_stride") else "*bf16")
