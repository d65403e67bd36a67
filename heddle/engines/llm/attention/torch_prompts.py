"""Attention of one row, its queries cut into blocks that read only the keys they see."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.step_batch import BatchRow

CAUSAL_BLOCKS_MAX = 2048  # queries of a whole prompt that are cut into blocks on a CPU
BLOCK_QUERIES = 256  # read the keys that none of them hides in one call: longer products
PART_QUERIES = 64  # read the others with a mask: of 32 to 256 as fast as any, and the least memory
SHARED_KEYS_MIN = 512  # fewer keys, though no query of a block hides one, are read with a mask


class KeyPart(NamedTuple):
    """Keys and values of neighbouring positions. Shapes: [kv_heads, n, head_dim]."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class BlockPart:
    """Queries [start, stop) of a row and the keys [first, last) of which they see some.

    Shapes: mask [stop - start, last - first], added to the scores: 0 or -inf; None: nothing is
    hidden, or, where `is_causal`, only what comes after each query.
    """

    start: int
    stop: int
    first: int
    last: int
    mask: Tensor | None = None
    is_causal: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class QueryBlock:
    """Neighbouring queries of a row: all of them see the first `shared` keys.

    Their `parts` say what else each sees.
    """

    parts: tuple[BlockPart, ...]
    shared: int = 0

    @property
    def queries(self) -> slice:
        """Which of the row's queries they are."""
        return slice(self.parts[0].start, self.parts[-1].stop)


def query_blocks(row: BatchRow, dtype: torch.dtype, device: torch.device) -> tuple[QueryBlock, ...]:
    """Return the blocks in which a row's queries are computed, with their masks.

    A single query sees everything, and a whole prompt is plainly causal: no mask. Else the queries
    are cut and each part reads only the keys up to its last query: what lies after all of
    a part is never touched (at 15 % of 8k tokens half of the work of one masked call). On a CPU
    that pays for short whole prompts, too: torch's causal attention computes 512 keys at a time,
    hidden or not (9 against 14 ms for 512 tokens). There, what lies before all of a block is read
    without a mask.
    """
    if row.queries == 1:
        return (QueryBlock((BlockPart(0, 1, 0, row.context),)),)
    is_cpu = device.type == "cpu"
    if row.queries == row.context and not (is_cpu and row.queries <= CAUSAL_BLOCKS_MAX):
        return (QueryBlock((BlockPart(0, row.queries, 0, row.context, is_causal=True),)),)
    places = row.places
    if places is None:
        places = np.arange(row.context - row.queries, row.context)
    blocks: list[QueryBlock] = []
    start = 0
    while start < row.queries:
        first = int(places[start])
        shared = first if is_cpu and first >= SHARED_KEYS_MIN else 0
        stop = min(start + (BLOCK_QUERIES if shared else PART_QUERIES), row.queries)
        blocks.append(_block(start, places[start:stop], shared, dtype, device))
        start = stop
    return tuple(blocks)


def _block(
    start: int,
    places: NDArray[np.int64],
    shared: int,
    dtype: torch.dtype,
    device: torch.device,
) -> QueryBlock:
    """Return a row's queries from number `start` on, which stand at these places."""
    parts = []
    for first in range(0, len(places), PART_QUERIES):
        own = places[first : first + PART_QUERIES]
        begin, end = int(own[0]), int(own[-1]) + 1
        mask = torch.zeros(len(own), end - shared, dtype=dtype, device=device)
        # No query of the part hides a key that lies before the part's first query.
        hidden = torch.arange(begin, end, device=device) > torch.from_numpy(own).to(device)[:, None]
        mask[:, begin - shared :].masked_fill_(hidden, float("-inf"))
        parts.append(BlockPart(start + first, start + first + len(own), shared, end, mask))
    return QueryBlock(tuple(parts), shared)


def attend_blocks(
    query: Tensor, parts: Sequence[KeyPart], blocks: tuple[QueryBlock, ...], scaling: float
) -> Tensor:
    """Return one row's output.

    Shapes: query [heads, queries, head_dim]; `parts` hold the whole context, one after another;
    result [queries, heads, head_dim].
    """
    if len(blocks) == 1 and not blocks[0].shared:
        return _attend(query, parts, blocks[0].parts[0], scaling).transpose(0, 1)
    out = torch.empty_like(query.transpose(0, 1), memory_format=torch.contiguous_format)
    for block in blocks:
        if block.shared:
            _attend_in_parts(query, parts, block, scaling, out[block.queries])
        else:
            (part,) = block.parts
            out[block.queries] = _attend(query, parts, part, scaling).transpose(0, 1)
    return out


def _attend(query: Tensor, parts: Sequence[KeyPart], part: BlockPart, scaling: float) -> Tensor:
    """Return the output of a part that reads all keys it sees.

    Shapes: query [heads, queries, head_dim]; result [heads, part's queries, head_dim].
    """
    own = query[:, part.start : part.stop]
    keys, values = _joined(parts, part.first, part.last)
    kv_heads = len(keys)
    if part.mask is None and not part.is_causal:
        # The heads of a group share their keys, so they may as well be queries of one head.
        grouped = own.reshape(1, kv_heads, -1, own.shape[2])
        out = F.scaled_dot_product_attention(grouped, keys[None], values[None], scale=scaling)
        return out.reshape(own.shape)
    return F.scaled_dot_product_attention(
        own[None],
        keys[None],
        values[None],
        attn_mask=part.mask,
        is_causal=part.is_causal,
        scale=scaling,
        enable_gqa=len(own) != kv_heads,
    )[0]


def _attend_in_parts(
    query: Tensor, parts: Sequence[KeyPart], block: QueryBlock, scaling: float, out: Tensor
) -> None:
    """Attend to the shared keys, run by run, and to the others; weigh the results.

    A mask over all keys costs 10 to 20 % at 8k tokens, joining runs of the pool that lie apart
    10 % at 2k, and torch copies keys and values for every head that shares them; without a mask
    such heads are queries of one head. Every query sees at least one key of each part, so all
    log-sum-exps are finite.

    Shapes: query [heads, queries, head_dim]; out [block's queries, heads, head_dim].
    """
    groups = query.reshape(len(parts[0].keys), -1, *query.shape[1:]).transpose(0, 1)
    found = out.view(len(out), groups.shape[1], -1, groups.shape[3]).permute(2, 1, 0, 3)
    weight = _attend_masked(groups, parts, block, scaling, found)
    together = groups[:, :, block.queries].transpose(0, 1).flatten(1, 2)[None]
    for part in _between(parts, 0, block.shared):
        more, more_weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            together, part.keys[None], part.values[None], scale=scaling
        )
        more = more[0].unflatten(1, (len(groups), -1)).transpose(0, 1)
        more_weight = more_weight[0].unflatten(1, (len(groups), -1)).transpose(0, 1)
        share = torch.sigmoid(more_weight - weight)
        found.lerp_(more, share[..., None].to(out.dtype))
        weight = torch.logaddexp(weight, more_weight)


def _attend_masked(
    groups: Tensor, parts: Sequence[KeyPart], block: QueryBlock, scaling: float, out: Tensor
) -> Tensor:
    """Write what the queries of a block get from the keys that they don't share.

    Shapes: groups [group, kv_heads, queries, head_dim]; out [group, kv_heads, block's queries,
    head_dim]; result, its weight as log-sum-exps, [group, kv_heads, block's queries].
    """
    weights = []
    start = block.queries.start
    for part in block.parts:
        keys, values = _joined(parts, part.first, part.last)
        found, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            groups[:, :, part.start : part.stop],
            keys.expand(len(groups), -1, -1, -1),
            values.expand(len(groups), -1, -1, -1),
            attn_mask=part.mask,
            scale=scaling,
        )
        out[:, :, part.start - start : part.stop - start] = found
        weights.append(weight)
    return weights[0] if len(weights) == 1 else torch.cat(weights, dim=2)


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
