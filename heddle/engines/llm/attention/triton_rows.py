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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.attention.grouped_keys import GroupedKeys
from heddle.engines.llm.attention.key_rotation import KeyRotation
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore
from heddle.kv.rows import Numbers

HEAD_DIM_MAX: Final = 128  # larger heads don't fit into the shared memory with these tiles
# A row's keys are cut so that this many programs work on it: two for each multiprocessor of an
# H100. Nothing but the row itself decides, so what runs beside it can't change its numbers.
PROGRAMS_PER_ROW: Final = 264
PART_KEYS_MIN: Final = 256


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a launch cuts its work, and the options of Triton's compiler.

    Where a key lies is loaded, too (`slots`), which takes pipeline stages: with 5, a block of keys
    has the time of a whole block before it to arrive; with 3 or 4, none (seen in the code that is
    compiled for an H100).
    """

    lines: int
    keys: int
    num_warps: int
    num_stages: int


# By the bytes of a number. Decodes leave most of a tile empty; long rows need large tiles, which
# read each key less often. In float32 there are no matrix units that are exact.
SMALL: Final = {2: Tiling(16, 64, 4, 5), 4: Tiling(16, 32, 4, 5)}
LARGE: Final = {2: Tiling(128, 64, 8, 5), 4: Tiling(64, 16, 8, 5)}


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


def plan_ragged(
    rows: Sequence[BatchRow], store: PageStore, heads: int, rotation: KeyRotation
) -> RaggedPlan:
    """Return the plan of a step.

    Args:
        rows: those of the step, at least one, in the order of their queries.
        store: where their keys are.
        heads: of the queries.
        rotation: rotates the queries for keys that are stored elsewhere.
    """
    device, kv_heads = store.device, store.shape.kv_heads
    firsts = np.cumsum([0, *(row.context for row in rows)])
    keys = [GroupedKeys.of(row, int(first)) for row, first in zip(rows, firsts[:-1], strict=True)]
    rotations = np.asarray([group.rotation for own in keys for group in own.groups])
    distances = np.unique(rotations)
    small, large = (sizes[store.shape.dtype.itemsize] for sizes in (SMALL, LARGE))
    launches = []
    for tiling, wanted in ((small, True), (large, False)):
        chosen = [
            _tiles(own, heads // kv_heads, kv_heads, tiling, distances)
            for own in keys
            if (own.row.queries * (heads // kv_heads) <= small.lines) is wanted
        ]
        if chosen:
            launches.append(_launch(chosen, tiling, device))
    slots, key_places = _where_keys_lie(keys, device)
    return RaggedPlan(
        heads,
        slots,
        key_places,
        _int32(np.concatenate([own.places for own in keys]), device),
        _query_rotations(distances, rotation, store) if distances.any() else None,
        tuple(launches),
    )


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


def _query_rotations(distances: Numbers, rotation: KeyRotation, store: PageStore) -> QueryRotations:
    """Return how queries are rotated for keys that are stored so far back.

    The model's own rotation is applied to each unit vector. The result shows which dimensions it
    pairs, in any layout, and by which angle.

    Shapes: distances [n].
    """
    head_dim = store.shape.head_dim
    # The query rotates back as far as its keys would have to rotate forth; one more distance shows
    # the pairs. A dimension stands in for a head.
    back = torch.from_numpy(np.append(-distances, 1)).to(store.device)
    units = torch.eye(head_dim, device=store.device)
    rotated = units[:, None].expand(-1, len(back), -1).contiguous()  # [from, distance, to]
    rotation.rotator(back)(rotated)
    matrices = rotated.transpose(0, 1)
    own_part = matrices[:-1].diagonal(dim1=1, dim2=2)
    partner_part = (matrices[:-1] - torch.diag_embed(own_part)).sum(dim=1)
    partner = matrices[-1].clone().fill_diagonal_(0.0).abs().argmax(dim=0)
    # The kernel takes rows that lie one after another; the diagonals may have had other strides.
    return QueryRotations(partner.int(), own_part.contiguous(), partner_part.contiguous())


def _where_keys_lie(keys: Sequence[GroupedKeys], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the slot of each key of the step and its place in its row. Shapes: [keys] int32 both.

    Only the runs travel to the device: two numbers for each key would be megabytes for long
    contexts.
    """
    runs = np.concatenate([own.runs() for own in keys])
    lengths = runs[:, 2]
    # What is added to a key's number in the step.
    shifts = runs[:, :2] - (np.cumsum(lengths) - lengths)[:, None]
    count = int(lengths.sum())
    each = torch.repeat_interleave(
        _int32(shifts.T, device), torch.from_numpy(lengths).to(device), dim=1, output_size=count
    )
    each += torch.arange(count, dtype=torch.int32, device=device)
    return each[0], each[1]


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """The tiles of one row, and what each part of them sees of each group of keys.

    Shapes: lines [tiles, 2] int64: first and stop; spans [tiles, parts, groups, 4] int64, as of
    `Launch`: one whose first key isn't before its stop is none.
    """

    lines: Numbers
    spans: Numbers

    @property
    def is_span(self) -> NDArray[np.bool_]:
        """Which of the spans are some. Shapes: [tiles, parts, groups]."""
        seen: NDArray[np.bool_] = self.spans[..., 0] < self.spans[..., 2]
        return seen

    def items(self, spans_before: int, parts_before: int) -> tuple[Numbers, Numbers]:
        """Return what programs compute, with how many keys, and what of it is merged.

        Shapes: [programs, 6] and [tiles in parts, 4] int64, as of `Launch`.
        """
        counts = self.is_span.sum(axis=2)  # [tiles, parts]; a part without any has no program
        keys = ((self.spans[..., 2] - self.spans[..., 0]) * self.is_span).sum(axis=2)
        tile, part = np.nonzero(counts)
        stop_span = spans_before + np.cumsum(counts[tile, part])
        programs = (counts > 0).sum(axis=1)
        is_cut = programs > 1
        stop_part = parts_before + np.cumsum(programs * is_cut)
        first_part = stop_part - programs * is_cut
        in_tile = np.arange(len(tile)) - (np.cumsum(programs) - programs)[tile]
        number = np.where(is_cut[tile], first_part[tile] + in_tile, -1)
        first_span = stop_span - counts[tile, part]
        each = (*self.lines[tile].T, first_span, stop_span, number, keys[tile, part])
        merges = np.column_stack([self.lines, first_part, stop_part])[is_cut]
        return np.stack(each, axis=1), merges


def _tiles(
    keys: GroupedKeys, group: int, kv_heads: int, tiling: Tiling, distances: Numbers
) -> Tiles:
    """Cut a row into tiles and parts. Shapes: distances [n], ascending, with all of its own."""
    row = keys.row
    lines_stop = row.query_stop * group
    first_line = np.arange(row.query_start * group, lines_stop, tiling.lines)
    stop_line = np.minimum(first_line + tiling.lines, lines_stop)
    parts = math.ceil(PROGRAMS_PER_ROW / (len(first_line) * kv_heads))
    parts = min(parts, math.ceil(row.context / PART_KEYS_MIN))
    length = math.ceil(row.context / (parts * tiling.keys)) * tiling.keys
    part_first = np.arange(keys.first, keys.first + row.context, length)[:, None]
    group_first = np.asarray([one.first for one in keys.groups])
    # [tiles, 1, groups]: behind which keys the first query of a tile, and its last, see no more.
    seen_by_all, stop_key = (
        np.stack([one.seen(keys.places[line // group - row.query_start]) for one in keys.groups], 1)
        for line in (first_line, stop_line - 1)
    )
    start = np.maximum(group_first, part_first)
    stop = np.minimum(stop_key[:, None], part_first + length)
    number = np.searchsorted(distances, [one.rotation for one in keys.groups])
    open_stop = np.minimum(np.maximum(seen_by_all[:, None], start), stop)
    spans = np.broadcast_arrays(start, open_stop, stop, number)
    return Tiles(np.stack([first_line, stop_line], axis=1), np.stack(spans, axis=-1))


def _launch(rows: Sequence[Tiles], tiling: Tiling, device: torch.device) -> Launch:
    """Number the spans, programs and parts of all tiles of a launch."""
    items, merges, spans = [], [], []
    spans_before = parts_before = 0
    for tiles in rows:
        own_items, own_merges = tiles.items(spans_before, parts_before)
        items.append(own_items)
        merges.append(own_merges)
        spans.append(tiles.spans[tiles.is_span])
        spans_before += len(spans[-1])
        parts_before += int((own_items[:, 4] >= 0).sum())
    every = np.concatenate(items)
    # The longest first: what starts last should end soon.
    every = every[np.argsort(-every[:, -1], kind="stable")]
    return Launch(
        tiling,
        _int32(every[:, :-1], device),
        _int32(np.concatenate(spans), device),
        _int32(np.concatenate(merges), device),
        parts_before,
    )


def _int32(numbers: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int32)).to(device)
