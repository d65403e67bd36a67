"""The Triton kernel behind `BlockTier`; importing this loads triton."""

import triton
import triton.language as tl

from heddle.engines.vector.ivf.hot.residency import BLOCK_ROWS

_BLOCK_ROWS = tl.constexpr(BLOCK_ROWS)


@triton.jit
def block_distances(
    out: tl.tensor,  # [n, b, BLOCK_ROWS] float32
    queries: tl.tensor,  # [n, d] float32
    blocks: tl.tensor,  # [n, b] int64
    vectors: tl.tensor,  # [blocks, BLOCK_ROWS, d]
    norms: tl.tensor,  # [blocks, BLOCK_ROWS] float32, inf = no vector there
    DIMS: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """Squared L2 of one query to the vectors of one of its blocks, read where they lie.

    Differences are summed, not products: near vectors lose no digits.
    """
    # The blocks come first: only the first number of a grid may pass 65,535.
    query_row = tl.program_id(1)
    pair = query_row * tl.num_programs(0) + tl.program_id(0)
    block = tl.load(blocks + pair)
    rows = tl.arange(0, _BLOCK_ROWS)
    norm = tl.load(norms + block * _BLOCK_ROWS + rows)
    total = tl.zeros([_BLOCK_ROWS], dtype=tl.float32)
    if block > 0:  # block 0 is empty
        for first in tl.static_range(0, DIMS, BLOCK_D):
            dims = first + tl.arange(0, BLOCK_D)
            is_dim = dims < DIMS
            query = tl.load(queries + query_row * DIMS + dims, mask=is_dim, other=0.0)
            places = (block * _BLOCK_ROWS + rows)[:, None] * DIMS + dims[None, :]
            values = tl.load(vectors + places, mask=is_dim[None, :], other=0.0)
            difference = values.to(tl.float32) - query[None, :]
            total += tl.sum(difference * difference, axis=1)
    total = tl.where(norm == float("inf"), float("inf"), total)
    tl.store(out + pair.to(tl.int64) * _BLOCK_ROWS + rows, total)
