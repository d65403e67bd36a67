"""Attention of all rows of a step in one kernel, on CUDA. (FusionRAG §4.3, Q-Sparse-Attn)

The keys of all rows stand one row after another: key k of the step lies in slot `slots[k]` and is
number `key_places[k]` of its row. A query sees the keys of its row up to its own `place`. A row's
own keys come first, then those of one chunk after another, so what a group of them shares, the
rotation of the queries, is applied once for each group, however many tokens between them are
computed anew (ADR 54). In a group places ascend, so what a tile sees of it is its beginning.

A line is a query and a head of a group that shares its keys; a tile is some neighbouring lines. As
queries ascend, a tile reads few keys that some of its lines don't see. Where a row has too few
tiles to fill a GPU (decodes, short questions) its keys are cut into parts, which are merged by
their log-sum-exps (lse).
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from heddle.engines.llm.attention.tiles import Tiling
from heddle.engines.llm.attention.tilings import Gpu
from heddle.kv.page_store import PageStore

HEAD_DIM_MAX: Final = 128  # larger heads don't fit into the shared memory with these tiles


@dataclass(frozen=True, slots=True, eq=False)
class QueryRotations:
    """How a query meets keys that are stored some distance from where they are used.

    Dimension d of the rotated query is own_part[r, d] * query[d] + partner_part[r, d] *
    query[partner[d]], which covers every layout of RoPE. `r` is the number of the distance.

    Shapes: partner [head_dim] int32; own_part, partner_part [distances, head_dim] float32.
    """

    partner: Tensor
    own_part: Tensor
    partner_part: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """Tiles of one size: what each program of the kernel computes.

    A span is what a tile, or a part of it, sees of one group of keys.

    Shapes: items [programs, 5] int32: first and stop line, first and stop span, part or -1; spans
    [n, 4] int32: first key, stop of those that all of the tile's queries see, stop key, number of
    the distance; merges [tiles in parts, 4] int32: first and stop line, first and stop part.
    """

    tiling: Tiling
    items: Tensor
    spans: Tensor
    merges: Tensor
    parts: int


@dataclass(frozen=True, slots=True, eq=False)
class RaggedPlan:
    """What the kernel must know of a step; every layer uses the same.

    Shapes: slots and key_places [keys] int32; places [t] int32.
    """

    heads: int
    slots: Tensor
    key_places: Tensor
    places: Tensor
    query_rotations: QueryRotations | None
    launches: tuple[Launch, ...]


def gpu_of(device: torch.device) -> Gpu | None:
    """Return what decides a GPU's tiles; None for a CPU, and where torch doesn't know it."""
    if device.type != "cuda":
        return None
    properties = torch.cuda.get_device_properties(device)
    shared_bytes: int | None = getattr(properties, "shared_memory_per_block_optin", None)
    return None if shared_bytes is None else Gpu(shared_bytes, properties.major)


def attend_ragged(
    plan: RaggedPlan, store: PageStore, layer: int, query: Tensor, scaling: float
) -> Tensor:
    """Return the output of all rows of a step.

    Shapes: query [heads, t, head_dim]; result [t, heads, head_dim].
    """
    from heddle.engines.llm.attention import triton_kernel as kernel

    heads, tokens, head_dim = query.shape
    keys, values = store.keys[layer], store.values[layer]
    kv_heads = keys.shape[0]
    assert query.stride(2) == 1, "a query's dimensions must be neighbours"
    sizes = {
        "HEAD_DIM": head_dim,
        "BLOCK_D": max(16, 1 << (head_dim - 1).bit_length()),
        "GROUP": heads // kv_heads,
    }
    # Without a rotation nothing reads the tables: any tensor stands in for them.
    tables = plan.query_rotations or QueryRotations(plan.places, plan.places, plan.places)
    out = query.new_empty(tokens, heads, head_dim)
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
        for launch in plan.launches:
            tiling = launch.tiling
            part_lse = out.new_empty(launch.parts, kv_heads, tiling.lines, dtype=torch.float32)
            part_out = part_lse.new_empty(*part_lse.shape, head_dim)
            kernel.attend_items[(launch.items.shape[0], kv_heads)](
                out,
                part_out,
                part_lse,
                query,
                keys,
                values,
                launch.items,
                launch.spans,
                plan.slots,
                plan.key_places,
                plan.places,
                tables.partner,
                tables.own_part,
                tables.partner_part,
                query.stride(0),
                query.stride(1),
                keys.stride(0),
                scaling * math.log2(math.e),
                **sizes,
                BLOCK_M=tiling.lines,
                BLOCK_N=tiling.keys,
                IS_ROTATED=plan.query_rotations is not None,
                num_warps=tiling.num_warps,
                num_stages=tiling.num_stages,
            )
            if launch.parts:
                shares = tiling.lines // kernel.MERGED_LINES
                kernel.merge_parts[(launch.merges.shape[0], shares, kv_heads)](
                    out, part_out, part_lse, launch.merges, **sizes, BLOCK_M=tiling.lines
                )
    return out
