"""Attention of rows that lie one behind the other, each within itself.

On a CPU the kernel computes it where the LLM's attention does (`heddle.kernels`): queries, keys and
values are read where their product has left them. Each token sees all of its row, and nothing is
rotated.
"""

import ctypes
import logging
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heddle.kernels.compiled_kernel import (
    HEAD_DIM_MAX,
    LayerWork,
    RowKernel,
    RowWork,
    find_row_kernel,
)

Attend = Callable[[Tensor], Tensor]
"""What each token attends to in its own row [n, d], of queries, keys and values [n, 3 d]."""
PARTS: Final = 3  # of a product: queries, keys, values
log = logging.getLogger(__name__)


class CompiledAttention:
    """The kernel's attention over the rows of one batch, for all layers.

    Args:
        kernel: of the product's number type.
        lengths: of the rows [tokens].
        n_heads: of the model.
        head_dim: numbers of a head.
    """

    def __init__(
        self, kernel: RowKernel, lengths: Sequence[int], n_heads: int, head_dim: int
    ) -> None:
        self._kernel, self._n_heads, self._head_dim = kernel, n_heads, head_dim
        counts = np.array(lengths, np.int64)
        begins = np.cumsum(counts) - counts
        self._tokens = int(counts.sum())
        places = np.arange(self._tokens) - np.repeat(begins, counts)
        # A key's numbers begin at its slot times `head_dim`: a token's are as many heads apart.
        slots = np.arange(self._tokens) * (PARTS * n_heads)
        self._places, self._slots = places.astype(np.int32), slots.astype(np.int32)
        self._last_seen = np.repeat(counts - 1, counts).astype(np.int32)
        self._starts = np.stack([np.zeros_like(counts), counts], axis=1)  # one group of keys a row
        self._factors = np.tile(np.array([1, 0], np.float32), head_dim // 2)  # turned by nothing
        self._rows = (RowWork * len(counts))(
            *(
                RowWork(
                    begin,
                    count,
                    _at(self._last_seen, begin),
                    1,
                    _at(self._starts, 2 * row),
                    _at(self._slots, begin),
                    _at(self._places, begin),
                    _at(self._factors, 0),
                )
                for row, (begin, count) in enumerate(zip(begins.tolist(), lengths, strict=True))
            )
        )

    def __call__(self, projected: Tensor) -> Tensor:
        """Return what each token attends to. Shapes: projected [n, 3 d]; result [n, d]."""
        heads, size = self._n_heads, self._head_dim
        width = heads * size
        out = projected.new_empty(self._tokens, width)
        start, step = projected.data_ptr(), width * projected.element_size()
        work = LayerWork(
            query=start,
            query_head=size,
            query_row=PARTS * width,
            keys=start + step,
            values=start + 2 * step,
            pool_head=size,
            out=out.data_ptr(),
            rows=ctypes.addressof(self._rows),
            count=len(self._rows),
            heads=heads,
            kv_heads=heads,
            head_dim=size,
            scaling=size**-0.5,
        )
        self._kernel.run(work, torch.get_num_threads())
        return out


def attention_over(lengths: Sequence[int], n_heads: int, like: Tensor, width: int) -> Attend:
    """Return the attention of rows of these lengths, for all layers of a batch.

    Args:
        lengths: of the rows [tokens].
        n_heads: of the model.
        like: a tensor of the device and number type of the products.
        width: numbers of a token.
    """
    if like.device.type != "cpu":
        return lambda projected: padded_attention(projected, lengths, n_heads)
    head_dim = width // n_heads
    kernel = _kernel(like.dtype) if head_dim <= HEAD_DIM_MAX and head_dim % 2 == 0 else None
    if kernel is None:
        return lambda projected: torch_attention(projected, lengths, n_heads)
    return CompiledAttention(kernel, lengths, n_heads, head_dim)


def torch_attention(projected: Tensor, lengths: Sequence[int], n_heads: int) -> Tensor:
    """Return what each token attends to in its own row, row by row.

    Shapes: projected [n, 3 d]: queries, keys and values side by side; result [n, d].
    """
    width = projected.shape[1] // PARTS
    out = projected.new_empty(projected.shape[0], width)
    parts, targets = torch.split(projected, list(lengths)), torch.split(out, list(lengths))
    for part, target in zip(parts, targets, strict=True):
        query, key, value = part.view(len(part), PARTS, n_heads, -1).permute(1, 2, 0, 3)
        attended = F.scaled_dot_product_attention(query[None], key[None], value[None])[0]
        target.view(len(part), n_heads, -1).copy_(attended.transpose(0, 1))
    return out


def padded_attention(projected: Tensor, lengths: Sequence[int], n_heads: int) -> Tensor:
    """Return the same, all rows at once: for devices that wait for each call."""
    counts = torch.tensor(lengths, device=projected.device)
    longest = max(lengths)
    is_token = torch.arange(longest, device=projected.device) < counts[:, None]
    padded = projected.new_zeros(len(lengths), longest, projected.shape[1])
    padded[is_token] = projected
    query, key, value = padded.view(len(lengths), longest, PARTS, n_heads, -1).permute(
        2, 0, 3, 1, 4
    )
    attended = F.scaled_dot_product_attention(
        query, key, value, attn_mask=is_token[:, None, None, :]
    )
    return attended.transpose(1, 2).flatten(2)[is_token]


def _kernel(dtype: torch.dtype) -> RowKernel | None:
    if dtype not in (torch.float32, torch.bfloat16):
        return None
    found = find_row_kernel(in_bfloat16=dtype is torch.bfloat16)
    if found.problem:
        _say_once(found.problem)
    return found.kernel


_said: set[str] = set()


def _say_once(problem: str) -> None:
    if problem not in _said:
        _said.add(problem)
        log.warning("encoders compute attention by torch, up to five times slower: %s", problem)


def _at(array: np.ndarray, number: int) -> int:
    """Return the address of an array's element."""
    return int(array.ctypes.data) + number * array.itemsize
