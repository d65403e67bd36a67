"""Attention over rows: each sequence reads its own keys where they lie. (ADR 11)"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor, nn
from transformers import AttentionInterface

from heddle.engines.llm.attention.compiled_rows import CompiledRows
from heddle.engines.llm.attention.gathered_keys import GatheredKeys
from heddle.engines.llm.attention.key_rotation import KeyRotation
from heddle.engines.llm.attention.meters import Meter
from heddle.engines.llm.attention.ragged_planner import RaggedPlanner
from heddle.engines.llm.attention.torch_decodes import DecodeRows, attend_decodes
from heddle.engines.llm.attention.torch_prompts import KeyPart, QueryBlock, attend_blocks
from heddle.engines.llm.attention.triton_rows import RaggedPlan, attend_ragged
from heddle.engines.llm.step_batch import BatchRow, LastQueries, TokenScores, ValueDeviation
from heddle.kernels.compiled_kernel import RowKernel
from heddle.kv.page_store import PageStore
from heddle.kv.rows import SlotRun

ATTENTION_NAME = "heddle_rows"
PARTS_MAX = 4  # more runs of slots are joined: each costs calls of its own


@dataclass(frozen=True, slots=True, eq=False)
class AttentionContext:
    """What the attention of every layer needs to know of a step.

    `slots` [t] int64 says where new keys and values go, `runs` the same (empty: only `slots` does);
    `decodes` are the first rows, if they are computed together, `rows` the others; `blocks` are the
    parts in which each of these computes its queries, `gathered` the keys of those that read pages
    of others, and `meters` watch some: both by the row's index there. `rotation` moves stored keys
    by a distance. Without any row, keys and values are stored and that is all. Rows without blocks
    are `compiled`, which read all keys where they lie. With `ragged`, one kernel computes all rows:
    there are no `decodes` and no `blocks` then; the `planner` made it. `kernel` is the compiled
    one, where there is one.
    """

    store: PageStore
    slots: Tensor
    decodes: DecodeRows | None
    rows: tuple[BatchRow, ...]
    blocks: tuple[tuple[QueryBlock, ...], ...]
    rotation: KeyRotation
    meters: Mapping[int, Meter] = field(default_factory=dict)
    gathered: Mapping[int, GatheredKeys] = field(default_factory=dict)
    compiled: CompiledRows | None = None
    ragged: RaggedPlan | None = None
    planner: RaggedPlanner | None = None
    runs: tuple[SlotRun, ...] = ()
    kernel: RowKernel | None = None

    @property
    def wants_scores_alone(self) -> bool:
        """Whether no row needs the last layer's output: the step only scores tokens."""
        return self.decodes is None and all(
            isinstance(row.measure, TokenScores | LastQueries) and row.draw is None
            for row in self.rows
        )

    @property
    def is_compiled_alone(self) -> bool:
        """Whether the compiled kernel computes all rows, and nothing watches them."""
        is_whole = self.compiled is not None and self.decodes is None and not any(self.blocks)
        return is_whole and not self.meters

    def only_measured(self) -> "AttentionContext":
        """Return the context of a layer whose output is not needed: rows are only measured."""
        blocks = ((),) * len(self.rows)
        return replace(self, decodes=None, blocks=blocks, compiled=None, ragged=None)

    def without_checked(self, tokens: int) -> "AttentionContext":
        """Return the context of the first `tokens`: without the rows that are only checked."""
        count = sum(not isinstance(row.measure, ValueDeviation) for row in self.rows)
        rows, ragged = self.rows[:count], self.ragged
        if rows and self.planner is not None:
            ragged = self.planner.plan(rows)
        return replace(
            self,
            slots=self.slots[:tokens],
            runs=(),
            rows=rows,
            blocks=self.blocks[:count],
            compiled=None if self.compiled is None else self.compiled.before(tokens),
            ragged=ragged,
        )


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
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    return attend(rows, layer, query[0], key[0], value[0], scale)[None], None


def attend(
    rows: AttentionContext, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float
) -> Tensor:
    """Store the new keys and values of a layer and return what the queries get.

    Shapes: query [heads, t, head_dim]; key, value [kv_heads, t, head_dim]; result
    [t, heads, head_dim].
    """
    _write(rows, layer, key, value)
    return attend_stored(rows, layer, query, scaling)


def attend_stored(rows: AttentionContext, layer: int, query: Tensor, scaling: float) -> Tensor:
    """Return what the queries of a layer get whose keys and values are stored.

    Shapes: query [heads, t, head_dim]; result [t, heads, head_dim].
    """
    for index, meter in rows.meters.items():
        row = rows.rows[index]
        meter.see(layer, query[:, row.query_start : row.query_stop], scaling)
    if rows.ragged is not None:
        return attend_ragged(rows.ragged, rows.store, layer, query, scaling)
    decodes = None
    if rows.decodes is not None:
        first = query[:, : len(rows.decodes.rows)]
        decodes = attend_decodes(rows.decodes, rows.store, layer, first, scaling)
        if not rows.rows:
            return decodes
    heads, tokens, head_dim = query.shape
    out = query.new_empty(tokens, heads, head_dim)
    if rows.compiled is not None:
        rows.compiled.attend(rows.store, layer, query, scaling, out)
    elif not any(rows.blocks):
        out.zero_()
    if decodes is not None:
        out[: len(decodes)] = decodes
    for index, (row, blocks) in enumerate(zip(rows.rows, rows.blocks, strict=True)):
        if blocks:
            queries = slice(row.query_start, row.query_stop)
            keys = _read(rows, layer, index)
            out[queries] = attend_blocks(query[:, queries], keys, blocks, scaling)
    return out


def _write(rows: AttentionContext, layer: int, key: Tensor, value: Tensor) -> None:
    """Store the new keys and values of a layer. Shapes: [kv_heads, t, head_dim]."""
    if 0 < len(rows.runs) <= PARTS_MAX:
        rows.store.write_runs(layer, rows.runs, key, value)
    else:
        rows.store.write(layer, rows.slots, key, value)


def _read(rows: AttentionContext, layer: int, index: int) -> list[KeyPart]:
    """Return a row's keys and values where they lie, or else brought together."""
    row = rows.rows[index]
    if index in rows.gathered:
        return [KeyPart(*rows.gathered[index].read(rows.store, layer))]
    if len(row.runs) <= PARTS_MAX:
        return [KeyPart(*rows.store.read(layer, (run,))) for run in row.runs]
    return [KeyPart(*rows.store.read(layer, row.runs))]


AttentionInterface.register(ATTENTION_NAME, attend_rows)
