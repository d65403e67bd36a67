"""How the rows of a step are cut into programs of the Triton kernel: pure numbers.

A line is a query and a head of a group that shares its keys; a tile is some neighbouring lines. A
span is what a tile, or a part of it, sees of one group of keys. Where a row has too few tiles to
fill a GPU its keys are cut into parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.attention.row_keys import RowKeys
from heddle.kv.rows import Numbers

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


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads that share keys (`group`), and how many such groups there are."""

    group: int
    kv_heads: int

    @classmethod
    def of(cls, heads: int, kv_heads: int) -> "Heads":
        """Return how query heads share their keys."""
        return cls(heads // kv_heads, kv_heads)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What the programs of a launch compute.

    Shapes: items [programs, 6] int64: first and stop line, first and stop span, part or -1, keys;
    spans [n, 4] int64: first key, stop of those that all of the tile's queries see, stop key, and
    the number of the distance; merges [tiles in parts, 4] int64: first and stop line, first and
    stop part.
    """

    items: Numbers
    spans: Numbers
    merges: Numbers

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return int((self.items[:, 4] >= 0).sum())

    @classmethod
    def joined(cls, works: Sequence["Work"]) -> "Work":
        """Return several as one: their spans and parts are numbered on."""
        items, merges = [], []
        spans_before = parts_before = 0
        for work in works:
            own, own_merges = work.items.copy(), work.merges.copy()
            own[:, 2:4] += spans_before
            own[own[:, 4] >= 0, 4] += parts_before
            own_merges[:, 2:] += parts_before
            items.append(own)
            merges.append(own_merges)
            spans_before += len(work.spans)
            parts_before += work.parts
        return cls(
            np.concatenate(items),
            np.concatenate([work.spans for work in works]),
            np.concatenate(merges),
        )


def small_work(rows: Sequence[RowKeys], heads: Heads, tiling: Tiling, distances: Numbers) -> Work:
    """Cut rows that are one tile each, all of them at once: decodes come by the hundred.

    Shapes: distances [n], ascending, with all of the rows.
    """
    bounds = np.asarray([(one.row.query_start, one.row.query_stop) for one in rows])
    lines = bounds * heads.group
    contexts = np.asarray([one.row.context for one in rows])
    firsts = np.asarray([one.first for one in rows])
    wanted = math.ceil(PROGRAMS_PER_ROW / heads.kv_heads)
    lengths = _part_lengths(contexts, np.full(len(rows), wanted), tiling.keys)
    counts = -(-contexts // lengths)
    part_row = np.repeat(np.arange(len(rows)), counts)
    in_row = np.arange(len(part_row)) - (np.cumsum(counts) - counts)[part_row]
    part_firsts = firsts[part_row] + in_row * lengths[part_row]
    group_firsts = np.concatenate([one.group_firsts for one in rows])
    seen = [one.seen(one.ends) for one in rows]
    seen_by_all, seen_by_some = np.concatenate(seen, axis=1)
    rotations = np.concatenate([one.rotations for one in rows])
    # A span begins where a part or a group does, and ends with what comes first.
    start = np.unique(np.concatenate([part_firsts, group_firsts]))
    part = np.searchsorted(part_firsts, start, side="right") - 1
    group = np.searchsorted(group_firsts, start, side="right") - 1
    row_stop = (firsts + contexts)[part_row[part]]
    stop = np.minimum(np.append(start[1:], row_stop[-1]), row_stop)
    stop = np.minimum(stop, seen_by_some[group])
    open_stop = np.clip(seen_by_all[group], start, np.maximum(start, stop))
    number = np.searchsorted(distances, rotations[group])
    is_span = start < stop
    spans = np.stack([start, open_stop, stop, number], axis=1)[is_span]
    tile_parts, tile = np.unique(part[is_span], return_inverse=True)
    return _numbered(lines, part_row[tile_parts], tile, spans)


def _numbered(lines: Numbers, tile_of: Numbers, program_of: Numbers, spans: Numbers) -> Work:
    """Number the programs and parts of some tiles.

    Shapes: lines [tiles, 2]: first and stop; tile_of [programs], ascending; program_of [spans],
    ascending; spans [spans, 4].
    """
    counts = np.bincount(program_of, minlength=len(tile_of))
    stop_span = np.cumsum(counts)
    keys = np.bincount(
        program_of, weights=spans[:, 2] - spans[:, 0], minlength=len(tile_of)
    ).astype(np.int64)
    programs = np.bincount(tile_of, minlength=len(lines))
    is_cut = programs > 1
    stop_part = np.cumsum(programs * is_cut)
    first_part = stop_part - programs * is_cut
    in_tile = np.arange(len(tile_of)) - (np.cumsum(programs) - programs)[tile_of]
    part = np.where(is_cut[tile_of], first_part[tile_of] + in_tile, -1)
    items = (*lines[tile_of].T, stop_span - counts, stop_span, part, keys)
    merges = np.column_stack([lines, first_part, stop_part])[is_cut]
    return Work(np.stack(items, axis=1), spans, merges)


def large_work(keys: RowKeys, heads: Heads, tiling: Tiling, distances: Numbers) -> Work:
    """Cut one row of many lines. Shapes: distances [n], ascending, with all of the row."""
    row = keys.row
    lines_stop = row.query_stop * heads.group
    first_line = np.arange(row.query_start * heads.group, lines_stop, tiling.lines)
    stop_line = np.minimum(first_line + tiling.lines, lines_stop)
    wanted = math.ceil(PROGRAMS_PER_ROW / (len(first_line) * heads.kv_heads))
    (length,) = _part_lengths(np.asarray([row.context]), np.asarray([wanted]), tiling.keys)
    part_first = np.arange(keys.first, keys.first + row.context, length)[:, None]
    # [tiles, 1, groups]: behind which keys the first query of a tile, and its last, see no more.
    seen_by_all, stop_key = (
        keys.seen(keys.places[line // heads.group - row.query_start])[:, None]
        for line in (first_line, stop_line - 1)
    )
    start = np.maximum(keys.group_firsts, part_first)  # [parts, groups]
    stop = np.minimum(stop_key, part_first + length)  # [tiles, parts, groups]
    open_stop = np.minimum(np.maximum(seen_by_all, start), stop)
    number = np.searchsorted(distances, keys.rotations)
    every = np.stack(np.broadcast_arrays(start, open_stop, stop, number), axis=-1)
    tile, part, _ = np.nonzero(start < stop)
    programs, program_of = np.unique(tile * len(part_first) + part, return_inverse=True)
    lines = np.stack([first_line, stop_line], axis=1)
    return _numbered(lines, programs // len(part_first), program_of, every[start < stop])


def _part_lengths(contexts: Numbers, wanted: Numbers, block: int) -> NDArray[np.int64]:
    """Return how many keys a part has, whole blocks of them.

    Shapes: contexts and wanted, the parts that fill a GPU, [rows]; result [rows] int64.
    """
    parts = np.minimum(wanted, -(-contexts // PART_KEYS_MIN))
    lengths: NDArray[np.int64] = -(-contexts // (parts * block)) * block
    return lengths
