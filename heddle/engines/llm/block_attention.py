"""Attention of one row, its queries cut into blocks that read only the keys they see."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heddle.engines.llm.step_batch import BatchRow

CAUSAL_BLOCKS_MAX = 2048  # queries of a whole prompt that are cut into blocks on a CPU
BLOCK_QUERIES = 64  # of 32 to 256 as fast as any on two AVX2 cores, and the least memory
SHARED_KEYS_MIN = 512  # from so many on, keys that no query of a block hides are read without mask


class KeyPart(NamedTuple):
    """Keys and values of neighbouring positions. Shapes: [kv_heads, n, head_dim]."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class QueryBlock:
    """Queries [start, stop) of a row and the first `keys` of its keys, which is all they see.

    All of them see the first `shared` keys; `mask` says what each sees of the others.

    Shapes: mask [stop - start, keys - shared], added to the scores: 0 or -inf; None: nothing is
    hidden, or, where `is_causal`, only what comes after each query.
    """

    start: int
    stop: int
    keys: int
    shared: int = 0
    mask: Tensor | None = None
    is_causal: bool = False


def query_blocks(row: BatchRow, dtype: torch.dtype, device: torch.device) -> tuple[QueryBlock, ...]:
    """Return the parts in which a row's queries are computed, with their masks.

    A single query sees everything, and a whole prompt is plainly causal: no mask. Else the queries
    are cut into blocks and each reads only the keys up to its last query: what lies after all of
    a block is never touched (at 15 % of 8k tokens half of the work of one masked call). On a CPU
    that pays for short whole prompts, too: torch's causal attention computes 512 keys at a time,
    hidden or not (9 against 14 ms for 512 tokens). There, what lies before all of a block is read
    without a mask.
    """
    if row.queries == 1:
        return (QueryBlock(0, 1, row.context),)
    is_cpu = device.type == "cpu"
    if row.queries == row.context and not (is_cpu and row.queries <= CAUSAL_BLOCKS_MAX):
        return (QueryBlock(0, row.queries, row.context, is_causal=True),)
    if row.places is None:
        places = torch.arange(row.context - row.queries, row.context, device=device)
    else:
        places = torch.from_numpy(row.places).to(device)
    known = places.tolist()
    blocks = []
    for start in range(0, row.queries, BLOCK_QUERIES):
        stop = min(start + BLOCK_QUERIES, row.queries)
        keys = known[stop - 1] + 1
        shared = known[start] if is_cpu and known[start] >= SHARED_KEYS_MIN else 0
        hidden = torch.arange(shared, keys, device=device) > places[start:stop, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        mask.masked_fill_(hidden, float("-inf"))
        blocks.append(QueryBlock(start, stop, keys, shared, mask))
    return tuple(blocks)


def attend_blocks(
    query: Tensor, parts: Sequence[KeyPart], blocks: tuple[QueryBlock, ...], scaling: float
) -> Tensor:
    """Return one row's output.

    Shapes: query [heads, queries, head_dim]; `parts` hold the whole context, one after another;
    result [queries, heads, head_dim].
    """
    outs = [_attend(query[:, b.start : b.stop], parts, b, scaling) for b in blocks]
    return (outs[0] if len(outs) == 1 else torch.cat(outs, dim=1)).transpose(0, 1)


def _attend(query: Tensor, parts: Sequence[KeyPart], block: QueryBlock, scaling: float) -> Tensor:
    """Return one block's output. Shapes: query and result [heads, queries, head_dim]."""
    if block.shared:
        return _attend_in_parts(query, parts, block, scaling)
    keys, values = _joined(parts, 0, block.keys)
    kv_heads = len(keys)
    if block.mask is None and not block.is_causal:
        # The heads of a group share their keys, so they may as well be queries of one head.
        grouped = query.reshape(1, kv_heads, -1, query.shape[2])
        out = F.scaled_dot_product_attention(grouped, keys[None], values[None], scale=scaling)
        return out.reshape(query.shape)
    return F.scaled_dot_product_attention(
        query[None],
        keys[None],
        values[None],
        attn_mask=block.mask,
        is_causal=block.is_causal,
        scale=scaling,
        enable_gqa=len(query) != kv_heads,
    )[0]


def _attend_in_parts(
    query: Tensor, parts: Sequence[KeyPart], block: QueryBlock, scaling: float
) -> Tensor:
    """Attend to the shared keys, part by part, then to the others; weigh the results.

    A mask over all keys costs 10 to 20 % at 8k tokens, joining parts of the pool that lie apart
    10 % at 2k, and torch copies keys and values for every head that shares them; without a mask
    such heads are queries of one head. Every query sees at least one key of each part, so all
    log-sum-exps are finite.

    Shapes: query and result [heads, queries, head_dim].
    """
    own = _joined(parts, block.shared, block.keys)
    # [kv_heads, group, queries, head_dim]
    groups = query.reshape(len(own.keys), -1, *query.shape[1:])
    together = groups.flatten(1, 2)[:, None]
    size = groups.shape[1]
    out: Tensor
    out, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        groups,
        own.keys[:, None].expand(-1, size, -1, -1),
        own.values[:, None].expand(-1, size, -1, -1),
        attn_mask=block.mask,
        scale=scaling,
    )
    for part in _between(parts, 0, block.shared):
        more, more_weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            together, part.keys[:, None], part.values[:, None], scale=scaling
        )
        more, more_weight = more.view(out.shape), more_weight.view(weight.shape)
        share = torch.sigmoid(more_weight - weight)
        out = torch.lerp(out, more, share[..., None].to(out.dtype))
        weight = torch.logaddexp(weight, more_weight)
    return out.flatten(0, 1)


def _joined(parts: Sequence[KeyPart], start: int, stop: int) -> KeyPart:
    found = _between(parts, start, stop)
    if len(found) == 1:
        return found[0]
    return KeyPart(
        torch.cat([part.keys for part in found], dim=1),
        torch.cat([part.values for part in found], dim=1),
    )


def _between(parts: Sequence[KeyPart], start: int, stop: int) -> list[KeyPart]:
    """Return the keys and values at positions [start, stop), as views."""
    found = []
    position = 0
    for part in parts:
        low, high = max(start - position, 0), min(stop - position, part.keys.shape[1])
        if low < high:
            found.append(KeyPart(part.keys[:, low:high], part.values[:, low:high]))
        position += part.keys.shape[1]
    return found
