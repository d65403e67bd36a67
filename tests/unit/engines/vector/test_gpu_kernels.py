"""The interpreter takes what Triton's compiler refuses; no GPU is needed to compile for one."""

import pytest

from tests.helpers.triton_compiling import output_uninterpreted

pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")

COMPILE = """
from heddle.engines.vector.graph.gpu.kernels import extend_slots
from heddle.engines.vector.ivf.hot.block_kernel import block_distances
from tests.helpers.triton_compiling import compiled

HALF, WHOLE, FLOAT = "*fp16", "*i32", "*fp32"

graph = {"vectors": HALF, "neighbours": WHOLE, "queries": FLOAT, "ids": WHOLE, "distances": FLOAT,
         "is_expanded": WHOLE, "visited": WHOLE, "is_over": WHOLE, "extends": WHOLE, "n": "i32"}
for topm, parents in ((64, 1), (128, 4)):
    kernel = compiled(extend_slots, 90, graph, TOPM=topm, PARENTS=parents, DEGREE=32, PLACES=4096,
                      DIMS=384, BLOCK_D=64)
    print("graph", kernel.metadata.shared)
for stored in (HALF, FLOAT):
    blocks = {"out": FLOAT, "queries": FLOAT, "blocks": "*i64", "vectors": stored, "norms": FLOAT}
    kernel = compiled(block_distances, 90, blocks, DIMS=384, BLOCK_D=64)
    print("blocks", kernel.metadata.shared)
"""


@pytest.mark.slow
def test_the_kernels_compile_for_gpus(tmp_path):
    lines = output_uninterpreted(COMPILE, tmp_path).splitlines()
    shared = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert shared.keys() == {"graph", "blocks"}
    assert max(shared.values()) <= 99 << 10  # of the smallest GPUs since Ampere
