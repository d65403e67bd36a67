"""Attention of all rows that decode, on the CPU. (ADR 8, ADR 12)"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heddle.engines.llm.attention.key_rotation import KeyRotation, Rotator
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore


@dataclass(frozen=True, slots=True, eq=False)
class SharedReads:
    """Chunks' pages that rows read beside their own, numbered one row after another.

    `rotate` takes the queries of all of them back to where their keys were stored. Where a row has
    no use for some of the keys, `kept` names the others among all that are read for it.

    Shapes: rows [reads] int64, whose each is; kept[row] [context] int64.
    """

    rows: Tensor
    rotate: Rotator
    kept: Mapping[int, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRows:
    """The first rows of a step: each has one query.

    The values of a layer are a table [kv_heads * slots, head_dim]; `value_ids` names the entries
    that the heads read, row by row and head by head, and `starts` where each head's begin.

    Shapes: value_ids [heads * all contexts] int32; starts [rows * heads] int32.
    """

    rows: tuple[BatchRow, ...]
    value_ids: Tensor
    starts: Tensor
    shared: SharedReads | None


def decode_rows(
    rows: Sequence[BatchRow], store: PageStore, heads: int, rotation: KeyRotation
) -> DecodeRows | None:
    """Return the leading rows that decode; None where there are none, or it wouldn't pay.

    In lower precision the weights of the values would be rounded, which the usual attention
    avoids; on a GPU it is faster, too.
    """
    if store.device.type != "cpu" or store.shape.dtype is not torch.float32:
        return None
    leading = tuple(takewhile(_is_decode, rows))
    if not leading:
        return None
    first_of_head = np.arange(store.shape.kv_heads, dtype=np.int32) * store.slots
    first_of_head = first_of_head.repeat(heads // store.shape.kv_heads)[:, None]
    value_ids = [(first_of_head + _slots(row)).ravel() for row in leading]
    contexts = np.repeat([row.context for row in leading], heads)
    starts = np.cumsum(contexts) - contexts
    return DecodeRows(
        leading,
        torch.from_numpy(np.concatenate(value_ids)),
        torch.from_numpy(starts.astype(np.int32)),
        _shared_reads(leading, rotation),
    )


def attend_decodes(
    decodes: DecodeRows, store: PageStore, layer: int, query: Tensor, scaling: float
) -> Tensor:
    """Return the output of the rows that decode.

    Torch's attention reads a row's keys and values at half of the memory's speed when it has a
    single query. A batched product for the scores and a bag of embeddings (a weighted sum of a
    table's rows) for the values come close to it.

    Shapes: query [heads, rows, head_dim]; result [rows, heads, head_dim].
    """
    keys, values = store.keys[layer], store.values[layer]
    heads, count, head_dim = query.shape
    scaled, shared = query * scaling, decodes.shared
    queries = _grouped(scaled, len(keys))
    rotated: Iterator[Tensor] = iter(())
    if shared is not None:
        for_reads = scaled.index_select(1, shared.rows)
        shared.rotate(for_reads)
        rotated = iter(_grouped(for_reads, len(keys)))
    weights = []
    for number, (grouped, row) in enumerate(zip(queries, decodes.rows, strict=True)):
        reads = [(grouped, row.runs), *((next(rotated), part.runs) for part in row.shared)]
        scores = [
            torch.bmm(own, keys.narrow(1, run.start, run.length).transpose(1, 2))
            for own, runs in reads
            for run in runs
        ]
        joined = scores[0] if len(scores) == 1 else torch.cat(scores, dim=-1)
        if shared is not None and number in shared.kept:
            # not index_select, which is slow along the last dimension
            joined = joined.gather(2, shared.kept[number].expand(*joined.shape[:2], -1))
        weights.append(joined.softmax(dim=-1).flatten())
    return F.embedding_bag(
        decodes.value_ids,
        values.flatten(0, 1),
        decodes.starts,
        mode="sum",
        per_sample_weights=torch.cat(weights),
    ).view(count, heads, head_dim)


def _is_decode(row: BatchRow) -> bool:
    return row.queries == 1 and row.places is None and row.measure is None


def _slots(row: BatchRow) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Return where each key lies, the row's own first. Shapes: result [context] int32."""
    return np.concatenate(row.slots_by_part()).astype(np.int32)


def _grouped(queries: Tensor, kv_heads: int) -> Tensor:
    """Return queries beside the keys that they share: as queries of one head.

    Shapes: queries [heads, n, head_dim]; result [n, kv_heads, group, head_dim].
    """
    return queries.transpose(0, 1).reshape(queries.shape[1], kv_heads, -1, queries.shape[2])


def _shared_reads(rows: Sequence[BatchRow], rotation: KeyRotation) -> SharedReads | None:
    parts = [(number, part) for number, row in enumerate(rows) for part in row.shared]
    if not parts:
        return None
    kept = {
        number: torch.from_numpy(_kept(row))
        for number, row in enumerate(rows)
        if any(part.kept is not None for part in row.shared)
    }
    distances = torch.tensor([-part.rotation for _, part in parts])
    of_row = torch.tensor([number for number, _ in parts])
    return SharedReads(of_row, rotation.rotator(distances), kept)


def _kept(row: BatchRow) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return which of the keys that are read for a row count. Shapes: result [context]."""
    first = sum(run.length for run in row.runs)
    found = [np.arange(first)]
    for part in row.shared:
        length = sum(run.length for run in part.runs)
        kept = np.arange(length) if part.kept is None else part.kept
        found.append(first + kept)
        first += length
    return np.concatenate(found)
