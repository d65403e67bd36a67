"""Causal attention of prompts that lie one behind the other."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def attended(
    queries: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor], *, at_once: bool
) -> Tensor:
    """Return each prompt's attention to itself, the prompts one behind the other.

    `at_once`: in one operation, the prompts filled up behind to one length. On a GPU starting an
    operation costs more than idle positions do, which a causal mask hides from the others.

    Shapes: of each prompt [heads, its tokens, head_dim], so of the result with all tokens.
    """
    if not at_once:
        parts = zip(queries, keys, values, strict=True)
        return torch.cat([_causal(q[None], k[None], v[None])[0] for q, k, v in parts], 1)
    lengths = [part.shape[1] for part in queries]
    together = _causal(*(_filled_up(parts, max(lengths)) for parts in (queries, keys, values)))
    rows = zip(together, lengths, strict=True)
    return torch.cat([row[:, :length] for row, length in rows], 1)


def _filled_up(parts: Sequence[Tensor], length: int) -> Tensor:
    """Shapes: of each part [heads, its tokens, d], of the result [parts, heads, length, d]."""
    return torch.stack([F.pad(part, (0, 0, 0, length - part.shape[1])) for part in parts])


def _causal(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
