"""Attention over rows: each sequence reads its own keys where they lie. (DESIGN §6)"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heddle.engines.llm.decode_attention import DecodeRows, attend_decodes
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore

ATTENTION_NAME = "heddle_rows"
CAUSAL_BLOCKS_MAX = 2048  # queries of a whole prompt that are cut into blocks on a CPU
BLOCK_QUERIES = 64  # of 32 to 256 as fast as any on two AVX2 cores, and the least memory

RotateKeys = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class QueryBlock:
    """Queries [start, stop) of a row and the first `keys` of its keys, which is all they see.

    Shapes: mask [stop - start, keys], added to the scores: 0 or -inf; None: nothing is hidden, or,
    where `is_causal`, only what comes after each query.
    """

    start: int
    stop: int
    keys: int
    mask: Tensor | None = None
    is_causal: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AttentionContext:
    """What the attention of every layer needs to know of a step.

    `slots` [t] int64 says where new keys and values go; `decodes` are the first rows, if they are
    computed together, `rows` the others; `blocks` are the parts in which each of these computes
    its queries; `rotate_keys(keys [kv_heads, n, head_dim], tokens)` turns stored keys by a
    distance. Mutates: the last of `layers` layers appends to `scores` what each row with scored
    spans gives its tokens.
    """

    store: PageStore
    slots: Tensor
    decodes: DecodeRows | None
    rows: tuple[BatchRow, ...]
    blocks: tuple[tuple[QueryBlock, ...], ...]
    rotate_keys: RotateKeys
    layers: int
    scores: list[tuple[Tensor, ...]] = field(default_factory=list)


def query_blocks(row: BatchRow, dtype: torch.dtype, device: torch.device) -> tuple[QueryBlock, ...]:
    """Return the parts in which a row's queries are computed, with their masks.

    A single query sees everything, and a whole prompt is plainly causal: no mask. Else the queries
    are cut into blocks and each reads only the keys up to its last query: what lies after all of
    a block is never touched (at 15 % of 8k tokens half of the work of one masked call). On a CPU
    that pays for short whole prompts, too: torch's causal attention computes 512 keys at a time,
    hidden or not (9 against 14 ms for 512 tokens).
    """
    if row.queries == 1:
        return (QueryBlock(0, 1, row.context),)
    is_short = device.type == "cpu" and row.queries <= CAUSAL_BLOCKS_MAX
    if row.queries == row.context and not is_short:
        return (QueryBlock(0, row.queries, row.context, is_causal=True),)
    if row.places is None:
        places = torch.arange(row.context - row.queries, row.context, device=device)
    else:
        places = torch.from_numpy(row.places).to(device)
    last = places.tolist()
    blocks = []
    for start in range(0, row.queries, BLOCK_QUERIES):
        stop = min(start + BLOCK_QUERIES, row.queries)
        keys = last[stop - 1] + 1
        hidden = torch.arange(keys, device=device) > places[start:stop, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        blocks.append(QueryBlock(start, stop, keys, mask.masked_fill_(hidden, float("-inf"))))
    return tuple(blocks)


def attend_rows(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    rows: AttentionContext | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Store the new keys and values, then attend: the decodes together, other rows one by one.

    Called by transformers' attention modules, after their q/k norms and RoPE.

    Shapes: query [1, heads, t, head_dim]; key, value [1, kv_heads, t, head_dim]; result
    [1, t, heads, head_dim].
    """
    assert rows is not None, "the layers were called without an AttentionContext"
    layer = module.layer_idx
    assert isinstance(layer, int)
    rows.store.write(layer, rows.slots, key[0], value[0])
    parts = []
    if rows.decodes is not None:
        first = query[0, :, : len(rows.decodes.rows)]
        parts.append(attend_decodes(rows.decodes, rows.store, layer, first, scaling))
    for row, blocks in zip(rows.rows, rows.blocks, strict=True):
        keys, values = _read(rows, layer, row)
        own = query[:, :, row.query_start : row.query_stop]
        parts.append(_attend(own, keys, values, blocks, scaling))
        if row.scored and layer == rows.layers - 1:
            rows.scores.append(_scores(own[0], keys, row.scored, scaling))
    return torch.cat(parts)[None], None


def _read(rows: AttentionContext, layer: int, row: BatchRow) -> tuple[Tensor, Tensor]:
    """Return a row's keys, turned, and values. Shapes: [kv_heads, context, head_dim]."""
    keys, values = rows.store.read(layer, row.runs)
    if any(segment.rotation for segment in row.segments):
        keys = torch.cat(
            [
                rows.rotate_keys(keys[:, segment.start : segment.stop], segment.rotation)
                for segment in row.segments
            ],
            dim=1,
        )
    return keys, values


def _attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    blocks: tuple[QueryBlock, ...],
    scaling: float | None,
) -> Tensor:
    """Return one row's output.

    Shapes: query [1, heads, queries, head_dim]; keys, values [kv_heads, context, head_dim];
    result [queries, heads, head_dim].
    """
    heads, kv_heads, head_dim = query.shape[1], keys.shape[0], query.shape[3]
    if query.shape[2] == 1:
        # The heads of a group share their keys, so they may as well be queries of one head.
        grouped = query.reshape(1, kv_heads, heads // kv_heads, head_dim)
        out = F.scaled_dot_product_attention(grouped, keys[None], values[None], scale=scaling)
        return out.reshape(1, heads, head_dim)
    parts = [
        F.scaled_dot_product_attention(
            query[:, :, block.start : block.stop],
            keys[None, :, : block.keys],
            values[None, :, : block.keys],
            attn_mask=block.mask,
            is_causal=block.is_causal,
            scale=scaling,
            enable_gqa=heads != kv_heads,
        )
        for block in blocks
    ]
    return torch.cat(parts, dim=2)[0].transpose(0, 1)


def _scores(
    query: Tensor, keys: Tensor, spans: tuple[tuple[int, int], ...], scaling: float | None
) -> tuple[Tensor, ...]:
    """Return how much the queries look at each token of each span. (FusionRAG §3.2)

    The softmax runs over one span at a time, so each chunk gets the same weight in all, and the
    sum over heads and queries.

    Shapes: query [heads, queries, head_dim]; keys [kv_heads, context, head_dim]; result[i]
    [tokens of spans[i]] float32.
    """
    head_dim = query.shape[2]
    grouped = query.float().reshape(keys.shape[0], -1, head_dim)  # heads of a group side by side
    scale = head_dim**-0.5 if scaling is None else scaling
    found = []
    for start, stop in spans:
        logits = grouped @ keys[:, start:stop].float().transpose(1, 2) * scale
        found.append(logits.softmax(dim=-1).sum(dim=(0, 1)))
    return tuple(found)
