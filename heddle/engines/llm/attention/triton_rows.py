"""Attention of all rows of a step in one kernel, on CUDA. (FusionRAG §4.3, Q-Sparse-Attn)

The keys of all rows stand one row after another: key k of the step lies in slot `slots[k]`, and a
query sees the keys of its row up to its own `place`. A line is a query and a head of a group that
shares its keys; a tile is some neighbouring lines. A tile reads no key behind its last query, and
as queries ascend, that bound is tight. Where a row has too few tiles to fill a GPU (decodes, short
questions) its keys are cut into parts, which are merged by their log-sum-exps (lse).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.attention.key_rotation import KeyRotation
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore
from heddle.kv.rows import runs_of

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

    Dimension d of the rotated query is own_part[s, d] * query[d] + partner_part[s, d] *
    query[partner[d]], which covers every layout of RoPE. `s` is the keys' segment.

    Shapes: partner [head_dim] int32; own_part, partner_part [segments, head_dim] float32.
    """

    partner: Tensor
    own_part: Tensor
    partner_part: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """Tiles of one size: what each program of the kernel computes.

    Shapes: items [programs, 8] int32: first and stop line, first and stop key, stop of the keys
    that all of the queries see, first and stop segment, part or -1; merges [tiles in parts, 4]
    int32: first and stop line, first and stop part.
    """

    tiling: Tiling
    items: Tensor
    merges: Tensor
    parts: int


@dataclass(frozen=True, slots=True, eq=False)
class RaggedPlan:
    """What the kernel must know of a step; every layer uses the same.

    Shapes: slots [keys] int32; places [t] int32; segments [n, 2] int32.
    """

    heads: int
    slots: Tensor
    places: Tensor
    segments: Tensor
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
        rotation: rotates the queries for segments whose keys are stored elsewhere.
    """
    device = store.device
    group = heads // store.shape.kv_heads
    firsts = np.cumsum([0, *(row.context for row in rows)])
    places = np.concatenate(
        [_places(row) + first for row, first in zip(rows, firsts[:-1], strict=True)]
    )
    segments, rotations = _segments(rows, firsts)
    small, large = (sizes[store.shape.dtype.itemsize] for sizes in (SMALL, LARGE))
    is_small = [row.queries * group <= small.lines for row in rows]
    launches = []
    for tiling, wanted in ((small, True), (large, False)):
        chosen = [
            _tiles(row, places, group, store.shape.kv_heads, tiling, first)
            for row, first, fits in zip(rows, firsts[:-1], is_small, strict=True)
            if fits is wanted
        ]
        if chosen:
            launches.append(_launch(np.concatenate(chosen), segments, tiling, device))
    return RaggedPlan(
        heads,
        _slots(rows, device),
        _int32(places, device),
        _int32(segments, device),
        _query_rotations(rotations, rotation, store) if rotations.any() else None,
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
                plan.slots,
                plan.places,
                plan.segments,
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


def _places(row: BatchRow) -> NDArray[np.int64]:
    """Return which key of its row each query stands at. Shapes: result [queries]."""
    if row.places is not None:
        return row.places
    return np.arange(row.context - row.queries, row.context)


def _segments(
    rows: Sequence[BatchRow], firsts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the longest stretches of keys that share a rotation, across all rows.

    Shapes: firsts [rows + 1]; result [segments, 2] (start, stop), and rotations [segments].
    """
    starts: list[int] = []
    rotations: list[int] = []
    for row, first in zip(rows, firsts[:-1].tolist(), strict=True):
        rotated = row.key_table()[1] if row.shared else np.zeros(1, np.int64)
        changes = [0, *(np.flatnonzero(np.diff(rotated)) + 1).tolist()]
        for start, rotation in zip(changes, rotated[changes].tolist(), strict=True):
            if not rotations or rotations[-1] != rotation:
                starts.append(first + start)
                rotations.append(rotation)
    stops = [*starts[1:], int(firsts[-1])]
    return np.stack([starts, stops], axis=1), np.asarray(rotations, dtype=np.int64)


def _query_rotations(
    rotations: NDArray[np.int64], rotation: KeyRotation, store: PageStore
) -> QueryRotations:
    """Return how queries are rotated for keys that are stored `rotations` further back.

    The model's own rotation is applied to each unit vector. The result shows which dimensions it
    pairs, in any layout, and by which angle.

    Shapes: rotations [segments].
    """
    # A dimension stands in for a head with one key.
    units = torch.eye(store.shape.head_dim, device=store.device)[:, None]

    def rotated(tokens: int) -> Tensor:
        out = torch.empty_like(units)
        rotation.rotate(units, tokens, out)
        return out[:, 0]  # [from, to]

    distances, of_segment = np.unique(rotations, return_inverse=True)
    # The query rotates back as far as its keys would have to rotate forth.
    matrices = torch.stack([rotated(-tokens) for tokens in distances.tolist()])
    own_part = matrices.diagonal(dim1=1, dim2=2)
    partner_part = (matrices - torch.diag_embed(own_part)).sum(dim=1)
    partner = rotated(1).fill_diagonal_(0.0).abs().argmax(dim=0)
    index = torch.from_numpy(of_segment).to(store.device)
    # The kernel takes rows that lie one after another; the diagonals may have had other strides.
    own_part, partner_part = own_part[index].contiguous(), partner_part[index].contiguous()
    return QueryRotations(partner.int(), own_part, partner_part)


def _slots(rows: Sequence[BatchRow], device: torch.device) -> Tensor:
    """Return where each key of the step lies. Shapes: result [keys] int32.

    Only the runs travel to the device: a slot for each key would be megabytes for long contexts.
    """
    of_rows = (runs_of(row.key_table()[0]) if row.shared else row.runs for row in rows)
    runs = [run for runs in of_rows for run in runs]
    lengths = np.asarray([run.length for run in runs])
    shifts = np.asarray([run.start for run in runs]) - (np.cumsum(lengths) - lengths)
    count = int(lengths.sum())
    shift = torch.repeat_interleave(
        _int32(shifts, device), torch.from_numpy(lengths).to(device), output_size=count
    )
    return shift + torch.arange(count, dtype=torch.int32, device=device)


def _tiles(
    row: BatchRow,
    places: NDArray[np.int64],
    group: int,
    kv_heads: int,
    tiling: Tiling,
    first_key: int,
) -> NDArray[np.int64]:
    """Return a row's tiles: first and stop line, first and stop key, keys seen by all, part length.

    Shapes: places [t], of the whole step; result [tiles, 6].
    """
    lines_stop = row.query_stop * group
    first_line = np.arange(row.query_start * group, lines_stop, tiling.lines)
    stop_line = np.minimum(first_line + tiling.lines, lines_stop)
    parts = math.ceil(PROGRAMS_PER_ROW / (len(first_line) * kv_heads))
    parts = min(parts, math.ceil(row.context / PART_KEYS_MIN))
    blocks = math.ceil(row.context / (parts * tiling.keys))
    return np.stack(
        [
            first_line,
            stop_line,
            np.full_like(first_line, first_key),
            places[(stop_line - 1) // group] + 1,
            places[first_line // group] + 1,
            np.full_like(first_line, blocks * tiling.keys),
        ],
        axis=1,
    )


def _launch(
    tiles: NDArray[np.int64], segments: NDArray[np.int64], tiling: Tiling, device: torch.device
) -> Launch:
    """Cut the tiles into parts. Shapes: tiles [n, 6] as of `_tiles`; segments [m, 2]."""
    first_line, stop_line, first_key, stop_key, seen_by_all, length = tiles.T
    counts = -(-(stop_key - first_key) // length)
    is_cut = counts > 1
    stop_part = np.cumsum(np.where(is_cut, counts, 0))
    first_part = stop_part - np.where(is_cut, counts, 0)
    of_tile = np.repeat(np.arange(len(tiles)), counts)
    in_tile = np.arange(len(of_tile)) - (np.cumsum(counts) - counts)[of_tile]
    start = first_key[of_tile] + in_tile * length[of_tile]
    stop = np.minimum(start + length[of_tile], stop_key[of_tile])
    items = np.stack(
        [
            first_line[of_tile],
            stop_line[of_tile],
            start,
            stop,
            seen_by_all[of_tile],
            np.searchsorted(segments[:, 1], start, side="right"),
            np.searchsorted(segments[:, 0], stop, side="left"),
            np.where(is_cut[of_tile], first_part[of_tile] + in_tile, -1),
        ],
        axis=1,
    )
    # The longest first: what starts last should end soon.
    items = items[np.argsort(start - stop, kind="stable")]
    merges = np.stack([first_line, stop_line, first_part, stop_part], axis=1)[is_cut]
    parts = int(stop_part[-1])
    return Launch(tiling, _int32(items, device), _int32(merges, device), parts)


def _int32(numbers: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(numbers.astype(np.int32)).to(device)
