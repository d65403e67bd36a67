"""Runs a step on the device: transformers' modules, our own layer loop, attention and pages."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.attention.choice import COMPILED, TORCH, TRITON
from heddle.engines.llm.attention.compiled_rows import CompiledRows
from heddle.engines.llm.attention.context import (
    ATTENTION_NAME,
    AttentionContext,
)
from heddle.engines.llm.attention.gathered_keys import GatheredKeys
from heddle.engines.llm.attention.key_rotation import LibraryRotation, PairRotation
from heddle.engines.llm.attention.meters import KeysToScore, meter_of, scores_of
from heddle.engines.llm.attention.ragged_planner import RaggedPlanner
from heddle.engines.llm.attention.torch_decodes import decode_rows
from heddle.engines.llm.attention.torch_prompts import QueryBlock, query_blocks
from heddle.engines.llm.attention.triton_rows import RaggedPlan
from heddle.engines.llm.model.few_token_steps import FewTokenSteps
from heddle.engines.llm.model.fused_layers import FusedAttention
from heddle.engines.llm.model.recorded_decodes import Outputs, RecordedDecodes, sample_decodes
from heddle.engines.llm.model.sampler import draw_tokens, probabilities_of
from heddle.engines.llm.model.transfers import Transfers
from heddle.engines.llm.step_batch import (
    CHECK_LAYER,
    BatchRow,
    SlotLoad,
    StepBatch,
    StepResult,
    ValueDeviation,
)
from heddle.kernels.compiled_kernel import (
    FEW_HEADS,
    HEAD_DIM_MAX,
    TILE_QUERIES,
    VECTOR_MAX,
    FoundKernel,
    find_row_kernel,
)
from heddle.kernels.cuda_recorder import Recorder
from heddle.kv.chunk_entry import ChunkEntry
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.page_store import KvBlock, KvShape, PageStore
from heddle.kv.rows import runs_of


class WorkerClock:
    """The lane's own clock, for step times."""

    def now_s(self) -> float:
        """Return the time since an arbitrary start [s]."""
        return time.perf_counter()


def kv_shape(config: Any, dtype: torch.dtype) -> KvShape:  # noqa: ANN401 - transformers' class
    """Return what a model stores for each token."""
    head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads
    )
    return KvShape(config.num_hidden_layers, config.num_key_value_heads, head_dim, dtype)


class TransformersWorker:
    """An `LlmWorker` over a causal language model of transformers.

    The linear layers see all tokens of a step at once, packed into one sequence [1, t]; only
    the attention treats rows separately. The last norm and the vocabulary head see only the
    tokens behind which one is drawn.

    Args:
        model: an AutoModelForCausalLM of a supported architecture, in evaluation mode.
        slots: size of the KV pool [tokens].
        attention: what computes it: TRITON, COMPILED where it can and torch elsewhere, or TORCH.
    """

    def __init__(self, model: Any, slots: int, *, attention: str = COMPILED) -> None:  # noqa: ANN401
        self._model = model
        self._core = model.model
        self._core.config._attn_implementation = ATTENTION_NAME
        for layer in self._core.layers:
            layer.self_attn.config._attn_implementation = ATTENTION_NAME
        self._head = model.lm_head
        weight = self._core.embed_tokens.weight
        self._device = weight.device
        self._dtype = weight.dtype
        self._has_kernel = attention == TRITON
        self._wanted = attention
        self.store = PageStore(kv_shape(model.config, self._dtype), slots, self._device)
        is_fused = isinstance(self._core.layers[0].self_attn, FusedAttention)
        self._rotation = PairRotation(self._core) if is_fused else LibraryRotation(self._core)
        heads = self._core.config.num_attention_heads
        self._planner = (
            RaggedPlanner(self.store, heads, self._rotation) if self._has_kernel else None
        )
        # Steps between products are compiled, too, where torch computes the attention.
        self._steps = FoundKernel(None) if self._has_kernel else self._find_compiled()
        self._compiled = self._steps if attention == COMPILED else FoundKernel(None)
        self._recorded: RecordedDecodes | None = None
        self._few_tokens = FewTokenSteps.of(self._core, self._compiled.kernel, self.store)
        self._transfers = Transfers(self._device)

    @torch.inference_mode()
    def run(self, batch: StepBatch) -> StepResult:
        """Copy stored KV in, compute one step and draw the wanted tokens."""
        for load in batch.loads:
            self.load(load)
        context = self._attention_context(batch)
        recorded = None
        if self._recorded is not None and context.ragged is not None:
            recorded = self._recorded.run(batch, context.ragged)
        if recorded is not None:
            (hidden, logits), deviation = recorded, torch.empty(0, device=self._device)
        else:
            hidden, deviation = self._through_layers(batch, context)
            logits = self.logits(hidden, batch.rows)
        draws = [draw for row in batch.rows for draw in row.draws]
        # What holds a NaN or an infinity has a sum that is not finite: one pass for all tokens.
        sums = torch.cat([hidden.sum(dim=-1, dtype=torch.float32), deviation])
        are_finite, likeliest = _looked_at(sums, logits)
        broken_rows = _broken_rows(are_finite, batch)
        tokens = draw_tokens(logits, draws, likeliest)
        probabilities = probabilities_of(tokens, logits, draws)
        measured = _measured(batch, context, deviation.cpu().numpy())
        return StepResult(tokens, broken_rows, measured, probabilities)

    @torch.inference_mode()
    def record_decodes(self, recorder: Recorder, rows_max: int, context_max: int) -> None:
        """Record the steps that decode this many rows and fewer; `run` replays them from then on.

        Args:
            recorder: records.
            rows_max: most rows of a recorded step.
            context_max: most tokens of a row.

        Mutates: writes KV into the first slots of the pool, before any sequence owns them.
        """
        assert self._planner is not None, "only steps of the Triton kernel are recorded"
        heads = self._core.config.num_attention_heads
        recorded = RecordedDecodes(
            self._decoded,
            self.store,
            heads,
            recorder,
            tiling=self._planner.tilings.small,
            rows_max=rows_max,
            context_max=context_max,
        )
        for rows in range(rows_max, 0, -1):  # the largest first: the others use its memory
            for is_rotated in (False, True):
                batch = sample_decodes(rows, is_rotated=is_rotated)
                recorded.record(batch, self._attention_context(batch))
        self._recorded = recorded

    def _decoded(self, tokens: Tensor, positions: Tensor, context: AttentionContext) -> Outputs:
        """Return what follows each token. Shapes: tokens and positions [t]."""
        with self._on_device():
            hidden, _ = self._through(tokens, positions[None], context, 0)
        return hidden, self._scored(hidden)

    def _scored(self, states: Tensor) -> Tensor:
        """Return the logits behind some states. Shapes: [n, hidden], [n, vocabulary] float32."""
        with self._on_device():
            logits: Tensor = self._head(self._core.norm(states)).float()
        return logits

    def _on_device(self) -> AbstractContextManager[object]:
        """Make the model's GPU the current one, which is where Triton launches."""
        guard: AbstractContextManager[object] = torch.cuda.device_of(self._core.embed_tokens.weight)  # type: ignore[no-untyped-call]
        return guard

    @torch.inference_mode()
    def hidden_states(self, batch: StepBatch) -> Tensor:
        """Compute one step up to the last layer. Shapes: result [t, hidden].

        Mutates: writes the KV of all tokens of the step.
        """
        return self._through_layers(batch, self._attention_context(batch))[0]

    def _attention_context(self, batch: StepBatch) -> AttentionContext:
        heads = self._core.config.num_attention_heads
        decodes = None
        if not (self._has_kernel or self._compiles_decodes):
            decodes = decode_rows(batch.rows, self.store, heads, self._rotation)
        others = batch.rows[len(decodes.rows) if decodes else 0 :]
        meters = {
            index: meter_of(row, self.store, self._rotation) for index, row in enumerate(others)
        }
        ragged: RaggedPlan | None = None
        blocks: tuple[tuple[QueryBlock, ...], ...] = ()
        gathered: dict[int, GatheredKeys] = {}
        compiled: CompiledRows | None = None
        if self._planner is not None:
            ragged = self._planner.plan(batch.rows)
        else:
            compiled, indices = self._compiled_rows(others)
            blocks = tuple(
                () if index in indices else query_blocks(row, self._dtype, self._device)
                for index, row in enumerate(others)
            )
            gathered = {
                index: GatheredKeys.of(row, self.store, self._rotation)
                for index, row in enumerate(others)
                if row.shared and index not in indices
            }
        return AttentionContext(
            store=self.store,
            slots=torch.from_numpy(batch.slots).to(self._device),
            runs=runs_of(batch.slots),
            decodes=decodes,
            rows=others,
            blocks=blocks,
            rotation=self._rotation,
            meters={index: meter for index, meter in meters.items() if meter is not None},
            gathered=gathered,
            compiled=compiled,
            ragged=ragged,
            planner=self._planner,
            kernel=self._steps.kernel,
        )

    def _find_compiled(self) -> FoundKernel:
        """Return the compiled kernel, where it is meant for this model."""
        is_paired = isinstance(self._rotation, PairRotation)  # so it is on a CPU
        if not is_paired or self.store.shape.head_dim > HEAD_DIM_MAX:
            return FoundKernel(None)
        return find_row_kernel(in_bfloat16=self._dtype is torch.bfloat16)

    @property
    def _is_compiled_alone(self) -> bool:
        """Whether the compiled kernel computes any row: in bfloat16 few queries take little."""
        return self._compiled.kernel is not None and self._dtype is torch.bfloat16

    @property
    def _compiles_decodes(self) -> bool:
        """Whether the compiled kernel computes rows that decode, all of a step in one call."""
        shape, heads = self.store.shape, self._core.config.num_attention_heads
        are_few = heads // shape.kv_heads <= FEW_HEADS and shape.head_dim % VECTOR_MAX == 0
        return self._compiled.kernel is not None and (are_few or self._is_compiled_alone)

    def _compiled_rows(
        self, rows: Sequence[BatchRow]
    ) -> tuple[CompiledRows | None, frozenset[int]]:
        """Return what the compiled kernel computes, and the indices of these rows."""
        kernel, rotation = self._compiled.kernel, self._rotation
        if kernel is None or not isinstance(rotation, PairRotation):
            return None, frozenset()
        indices = [
            index
            for index, row in enumerate(rows)
            if row.shared
            or row.queries >= TILE_QUERIES
            or (row.queries == 1 and self._compiles_decodes)
            or self._is_compiled_alone
        ]
        if not indices:
            return None, frozenset()
        wanted = [rows[index] for index in indices]
        return CompiledRows.of(wanted, kernel, rotation), frozenset(indices)

    def _through_layers(self, batch: StepBatch, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """Compute a step; rows that are only checked leave after the first layers.

        Shapes: the other rows' states [tokens, hidden]; how far the values of those that are
        checked moved [checked tokens] float32.
        """
        tokens = torch.from_numpy(batch.token_ids).to(self._device)
        positions = torch.from_numpy(batch.positions).to(self._device)[None]
        with self._on_device():
            return self._through(tokens, positions, context, batch.checked_tokens)

    def _through(
        self, tokens: Tensor, positions: Tensor, context: AttentionContext, checked_tokens: int
    ) -> tuple[Tensor, Tensor]:
        """Compute a step whose inputs are on the device. Shapes: tokens [t], positions [1, t]."""
        hidden: Tensor = self._core.embed_tokens(tokens[None])
        cos_sin = self._rotation.embeddings(hidden, positions)
        few = self._few_tokens
        if few is not None and not checked_tokens and few.can_run(len(tokens), context):
            states = few.run(hidden[0], cos_sin[0][0], context)
            return states, torch.empty(0)
        check_layer = min(CHECK_LAYER, len(self._core.layers) - 1)
        deep = len(tokens) - checked_tokens
        deviation = torch.empty(0, device=self._device)
        for number, layer in enumerate(self._core.layers):
            if number == check_layer and checked_tokens:
                own = tuple(part[:, deep:] for part in cos_sin)
                deviation = self._deviation(number, hidden[:, deep:], own, context.slots[deep:])
                hidden, positions = hidden[:, :deep], positions[:, :deep]
                cos_sin = tuple(part[:, :deep] for part in cos_sin)
                context = context.without_checked(deep)
            if not hidden.shape[1]:
                break
            if number == len(self._core.layers) - 1 and context.wants_scores_alone:
                self._attention_alone(number, hidden, cos_sin, context.only_measured())
                break
            hidden = layer(
                hidden,
                attention_mask=None,
                position_ids=positions,
                past_key_values=None,
                use_cache=False,
                position_embeddings=cos_sin,
                rows=context,
            )
        return hidden[0], deviation

    def _deviation(
        self, number: int, hidden: Tensor, cos_sin: tuple[Tensor, ...], slots: Tensor
    ) -> Tensor:
        """Write the keys and values of one layer, and return how far the values moved.

        Shapes: hidden [1, t, hidden]; cos_sin two of [1, t, rotary]; slots [t]; result [t].
        """
        values = self.store.values[number]
        before = values[:, slots]
        context = AttentionContext(self.store, slots, None, (), (), self._rotation)
        self._attention_alone(number, hidden, cos_sin, context)
        return (values[:, slots] - before).float().square().sum(dim=(0, 2))

    def _attention_alone(
        self, number: int, hidden: Tensor, cos_sin: tuple[Tensor, ...], context: AttentionContext
    ) -> None:
        """Write the keys and values of one layer and measure; its output is not needed.

        Shapes: hidden [1, t, hidden]; cos_sin [1, t, ...].
        """
        layer = self._core.layers[number]
        layer.self_attn(
            hidden_states=layer.input_layernorm(hidden),
            position_embeddings=cos_sin,
            attention_mask=None,
            past_key_values=None,
            rows=context,
        )

    @torch.inference_mode()
    def logits(self, hidden: Tensor, rows: Sequence[BatchRow]) -> Tensor:
        """Return the logits behind the queries that a draw is for.

        Shapes: hidden [t, hidden]; result [draws of all rows, vocabulary] float32.
        """
        last = [
            place
            for row in rows
            for place in range(row.query_stop - len(row.draws), row.query_stop)
        ]
        return self._scored(hidden[torch.tensor(last, dtype=torch.long, device=self._device)])

    @property
    def can_share(self) -> bool:
        """Whether its attention reads pages of others where they lie.

        Triton's kernel does (ADR 54). On a CPU sharing was timed: in bfloat16 only the compiled
        kernel reads them as fast as copies.
        """
        if self._has_kernel:
            return True
        if self._device.type != "cpu":
            return False
        return self._dtype is torch.float32 or self._is_compiled_alone

    @property
    def slowdowns(self) -> tuple[str, ...]:
        """What makes prompts slower here than they could be, if anything does."""
        problem = self._compiled.problem
        return (f"the attention of prompts is computed by torch: {problem}",) if problem else ()

    @property
    def attention(self) -> str:
        """What computes the attention of prompts."""
        is_torch = self._wanted == COMPILED and self._compiled.kernel is None
        return TORCH if is_torch else self._wanted

    @torch.inference_mode()
    def export_kv(
        self, slots: NDArray[np.int64], rotations: NDArray[np.int64] | None = None
    ) -> KvBlock:
        """Copy the KV of these slots to the host, its keys rotated by as many tokens.

        Shapes: slots and rotations [n].
        """
        block = self.store.gather(slots)
        if rotations is not None and rotations.any():
            self._rotation.rotator(torch.from_numpy(rotations).to(self._device))(block.keys)
        return self._transfers.to_host(block)

    @torch.inference_mode()
    def pack_kv(
        self, slots: NDArray[np.int64], rotations: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.generic], ...]:
        """Copy the KV of these slots to the host as `export_kv` does, for another process."""
        return self.export_kv(slots, rotations).packed()

    @torch.inference_mode()
    def export_chunk(self, slots: NDArray[np.int64], record: ChunkRecord) -> ChunkEntry:
        """Copy a chunk's KV out. Shapes: slots [record.tokens]."""
        return ChunkEntry(record, self._transfers.to_host(self.store.gather(slots)))

    @torch.inference_mode()
    def scores(
        self, queries: NDArray[np.float32], blocks: Sequence[tuple[object, int]]
    ) -> tuple[NDArray[np.float32], ...]:
        """Return how much queries that were kept look at each token of these chunks.

        Each block comes with how far the queries are rotated for it [tokens].
        Shapes: queries [heads, n, head_dim]; results [tokens of the block] each.
        """
        chunks = []
        for block, tokens in blocks:
            assert isinstance(block, KvBlock), f"a {type(block).__name__} is not a KvBlock"
            keys = block.keys[-1].to(self._device, non_blocking=True)
            chunks.append(KeysToScore(keys, tokens))
        return scores_of(torch.from_numpy(queries).to(self._device), chunks, self._rotation)

    @torch.inference_mode()
    def load_kv(self, slots: NDArray[np.int64], block: tuple[NDArray[np.generic], ...]) -> None:
        """Write a block of `pack_kv` into these slots. Shapes: slots [n]."""
        self.store.load(slots, self._transfers.to_device(KvBlock.unpacked(block)))

    @torch.inference_mode()
    def load(self, load: SlotLoad) -> None:
        """Copy stored KV into the pool, its keys rotated to their place."""
        block = load.block
        assert isinstance(block, KvBlock), f"a {type(block).__name__} is not a KvBlock"
        stored = self._transfers.to_device(block, load.offset, load.offset + len(load.slots))
        start = 0
        for run in runs_of(load.slots):
            tokens = slice(start, start + run.length)
            part = self.store.part(run)
            self._rotation.rotate(stored.keys[:, :, tokens], load.rotation, part.keys)
            part.values.copy_(stored.values[:, :, tokens])
            start += run.length


def _looked_at(sums: Tensor, logits: Tensor) -> tuple[list[int], list[int]]:
    """Return which sums, of states and then of logits, are finite, and the likeliest tokens.

    All in one transfer: each one waits for the device.

    Shapes: sums [t], of each token's states; logits [draws of all rows, vocabulary].
    """
    every = torch.cat([sums, logits.sum(dim=-1)])
    found: list[int] = torch.cat([torch.isfinite(every), logits.argmax(dim=-1)]).tolist()
    return found[: len(every)], found[len(every) :]


def _broken_rows(are_finite: Sequence[int], batch: StepBatch) -> frozenset[int]:
    """Return the rows whose states or logits are not finite: those of all tokens, then of draws."""
    states, ends = are_finite[: batch.tokens], iter(are_finite[batch.tokens :])
    broken = set()
    for index, row in enumerate(batch.rows):
        are_ends_finite = [next(ends) for _ in row.draws]
        if not (all(are_ends_finite) and all(states[row.query_start : row.query_stop])):
            broken.add(index)
    return frozenset(broken)


def _measured(
    batch: StepBatch, context: AttentionContext, deviation: NDArray[np.float32]
) -> dict[int, tuple[NDArray[np.float32], ...]]:
    """Return what was measured, by the row's index. Shapes: deviation [checked tokens]."""
    first = len(batch.rows) - len(context.rows)
    measured = {first + index: meter.result() for index, meter in context.meters.items()}
    deep = batch.tokens - batch.checked_tokens
    for index, row in enumerate(batch.rows):
        if isinstance(row.measure, ValueDeviation):
            measured[index] = (deviation[row.query_start - deep : row.query_stop - deep],)
    return measured
