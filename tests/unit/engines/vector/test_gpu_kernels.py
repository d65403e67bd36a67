"""The interpreter takes what Triton's compiler refuses; no GPU is needed to compile for one."""

import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")

COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from heddle.engines.vector.graph.gpu.kernels import extend_slots
from heddle.engines.vector.ivf.hot.block_kernel import block_distances

HALF, WHOLE, FLOAT = "*fp16", "*i32", "*fp32"

def compiled(function, pointers, **sizes):
    signature = {name: pointers.get(name, "constexpr") for name in function.arg_names}
    names = list(signature)
    constants = {(names.index(name),): value for name, value in sizes.items()}
    attributes = {(index,): [["tt.divisibility", 16]] for index, name in enumerate(names)
                  if signature[name][0] == "*"}
    source = ASTSource(function, signature, constants, attributes)
    return compile(source, target=GPUTarget("cuda", 90, 32))

graph = {"vectors": HALF, "neighbours": WHOLE, "queries": FLOAT, "ids": WHOLE, "distances": FLOAT,
         "is_expanded": WHOLE, "visited": WHOLE, "is_over": WHOLE, "extends": WHOLE, "n": "i32"}
for topm, parents in ((64, 1), (128, 4)):
    kernel = compiled(extend_slots, graph, TOPM=topm, PARENTS=parents, DEGREE=32, PLACES=4096,
                      DIMS=384, BLOCK_D=64)
    print("graph", kernel.metadata.shared)
for stored in (HALF, FLOAT):
    blocks = {"out": FLOAT, "queries": FLOAT, "blocks": "*i64", "vectors": stored, "norms": FLOAT}
    kernel = compiled(block_distances, blocks, DIMS=384, BLOCK_D=64)
    print("blocks", kernel.metadata.shared)
"""


@pytest.mark.slow
def test_the_kernels_compile_for_gpus(tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shared = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert shared.keys() == {"graph", "blocks"}
    assert max(shared.values()) <= 99 << 10  # of the smallest GPUs since Ampere
