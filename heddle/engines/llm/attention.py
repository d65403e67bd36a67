"""Attention over rows: each sequence reads its own keys where they lie. (DESIGN §6)"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore

ATTENTION_NAME = "heddle_rows"

RotateKeys = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionContext:
    """What the attention of every layer needs to know of a step.

    `slots` [t] int64 says where new keys and values go; `masks` [queries, context] are added to
    the scores of the rows that are one chunk of a longer prompt, None for the other rows;
    `rotate_keys(keys [kv_heads, n, head_dim], tokens)` turns stored keys by a distance.
    """

    store: PageStore
    slots: Tensor
    rows: tuple[BatchRow, ...]
    masks: tuple[Tensor | None, ...]
    rotate_keys: RotateKeys


def chunk_mask(row: BatchRow, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Return the mask of a chunk that continues a prompt: query i sees up to its own position.

    Shapes: result [queries, context], 0 or -inf; None where none is needed (a single query sees
    everything, a whole prompt is plainly causal).
    """
    if row.queries == 1 or row.queries == row.context:
        return None
    mask = torch.full((row.queries, row.context), float("-inf"), dtype=dtype, device=device)
    return mask.triu_(row.context - row.queries + 1)


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
    """Store the new keys and values, then attend row by row.

    Called by transformers' attention modules, after their q/k norms and RoPE.

    Shapes: query [1, heads, t, head_dim]; key, value [1, kv_heads, t, head_dim]; result
    [1, t, heads, head_dim].
    """
    assert rows is not None, "the layers were called without an AttentionContext"
    layer = module.layer_idx
    assert isinstance(layer, int)
    rows.store.write(layer, rows.slots, key[0], value[0])
    parts = [
        _attend(rows, layer, row, mask, query, scaling)
        for row, mask in zip(rows.rows, rows.masks, strict=True)
    ]
    return torch.cat(parts)[None], None


def _attend(
    rows: AttentionContext,
    layer: int,
    row: BatchRow,
    mask: Tensor | None,
    query: Tensor,
    scaling: float | None,
) -> Tensor:
    """Return one row's output. Shapes: [queries, heads, head_dim]."""
    keys, values = rows.store.read(layer, row.runs)
    if any(segment.rotation for segment in row.segments):
        keys = torch.cat(
            [
                rows.rotate_keys(keys[:, segment.start : segment.stop], segment.rotation)
                for segment in row.segments
            ],
            dim=1,
        )
    heads, kv_heads, head_dim = query.shape[1], keys.shape[0], query.shape[3]
    if row.queries == 1:
        # The heads of a group share their keys, so they may as well be queries of one head.
        grouped = query[:, :, row.query_start].reshape(1, kv_heads, heads // kv_heads, head_dim)
        out = F.scaled_dot_product_attention(grouped, keys[None], values[None], scale=scaling)
        return out.reshape(1, heads, head_dim)
    out = F.scaled_dot_product_attention(
        query[:, :, row.query_start : row.query_stop],
        keys[None],
        values[None],
        attn_mask=mask,
        is_causal=mask is None,
        scale=scaling,
        enable_gqa=heads != kv_heads,
    )
    return out[0].transpose(0, 1)
