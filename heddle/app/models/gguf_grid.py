"""The grid of a GGUF tensor, as its file has it: nothing is rounded again. (ADR 47)"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.quantized.grid_file import GridArrays

GROUP: Final = 32  # numbers of a block
HALF_BYTES: Final = 2
Q4_1: Final = "Q4_1"
Q8_0: Final = "Q8_0"
SIGN: Final = 128  # what makes codes of Q8_0 positive


def gguf_grid(blocks: NDArray[np.uint8], kind: str) -> GridArrays | None:
    """Return a tensor's grid; None where its kind has no such grid.

    Args:
        blocks: [out, bytes of a row], as GGUF has them.
        kind: the name of GGUF's type.
    """
    if kind == Q4_1:  # scale, low, two codes of 4 bits in a byte: the first half, the second half
        scales, lows, packed = _cut(blocks, 2 * HALF_BYTES + GROUP // 2)
        codes = np.concatenate((packed & 15, packed >> 4), axis=-1)
        return GridArrays(codes.reshape(len(blocks), -1), scales, lows)
    if kind == Q8_0:  # scale, signed codes
        rows = blocks.reshape(len(blocks), -1, HALF_BYTES + GROUP)
        scales = _halves(rows[..., :HALF_BYTES])
        codes = rows[..., HALF_BYTES:] ^ np.uint8(SIGN)
        lows = (scales.astype(np.float32) * -SIGN).astype(np.float16)  # exact: a power of two
        return GridArrays(codes.reshape(len(blocks), -1), scales, lows)
    return None


def _cut(
    blocks: NDArray[np.uint8], size: int
) -> tuple[NDArray[np.float16], NDArray[np.float16], NDArray[np.uint8]]:
    """Return scales, lows and the rest of blocks that begin with them."""
    rows = blocks.reshape(len(blocks), -1, size)
    first = _halves(rows[..., :HALF_BYTES])
    second = _halves(rows[..., HALF_BYTES : 2 * HALF_BYTES])
    return first, second, rows[..., 2 * HALF_BYTES :]


def _halves(parts: NDArray[np.uint8]) -> NDArray[np.float16]:
    return np.ascontiguousarray(parts).view("<f2")[..., 0]
