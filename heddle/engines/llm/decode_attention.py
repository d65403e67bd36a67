"""Attention of all rows that decode, on the CPU. (ADR 8)"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRows:
    """The first rows of a step: each has one query, and keys that are used where they lie.

    The values of a layer are a table [kv_heads * slots, head_dim]; `value_ids` names the entries
    that the heads read, row by row and head by head, and `starts` where each head's begin.

    Shapes: value_ids [heads * all contexts] int32; starts [rows * heads] int32.
    """

    rows: tuple[BatchRow, ...]
    value_ids: Tensor
    starts: Tensor


def decode_rows(rows: Sequence[BatchRow], store: PageStore, heads: int) -> DecodeRows | None:
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
    # The heads of a group share their keys, so they may as well be queries of one head.
    queries = (query * scaling).transpose(0, 1).reshape(count, keys.shape[0], -1, head_dim)
    weights = []
    for grouped, row in zip(queries, decodes.rows, strict=True):
        scores = [
            torch.bmm(grouped, keys.narrow(1, run.start, run.length).transpose(1, 2))
            for run in row.runs
        ]
        joined = scores[0] if len(scores) == 1 else torch.cat(scores, dim=-1)
        weights.append(joined.softmax(dim=-1).flatten())
    return F.embedding_bag(
        decodes.value_ids,
        values.flatten(0, 1),
        decodes.starts,
        mode="sum",
        per_sample_weights=torch.cat(weights),
    ).view(count, heads, head_dim)


def _is_decode(row: BatchRow) -> bool:
    is_turned = any(segment.rotation for segment in row.segments)
    return row.queries == 1 and row.places is None and row.measure is None and not is_turned


def _slots(row: BatchRow) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Return where each position of a row's context lies. Shapes: result [context] int32."""
    return np.concatenate(
        [np.arange(run.start, run.start + run.length, dtype=np.int32) for run in row.runs]
    )
