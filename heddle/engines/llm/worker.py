"""Runs a step on the device: transformers' modules, our own layer loop, attention and pages."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AttentionInterface

from heddle.engines.llm.attention import (
    ATTENTION_NAME,
    AttentionContext,
    attend_rows,
    query_blocks,
)
from heddle.engines.llm.decode_attention import decode_rows
from heddle.engines.llm.sampler import draw_tokens
from heddle.engines.llm.step_batch import BatchRow, SlotLoad, StepBatch, StepResult
from heddle.kv.chunk_entry import ChunkEntry
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.page_store import KvBlock, KvShape, PageStore

AttentionInterface.register(ATTENTION_NAME, attend_rows)


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
    the attention tells the rows apart. The last norm and the vocabulary head see the last token
    of the rows that want one.

    Args:
        model: an AutoModelForCausalLM of a supported architecture, in evaluation mode.
        slots: size of the KV pool [tokens].
    """

    def __init__(self, model: Any, slots: int) -> None:  # noqa: ANN401 - transformers' class
        self._model = model
        self._core = model.model
        self._core.config._attn_implementation = ATTENTION_NAME
        for layer in self._core.layers:
            layer.self_attn.config._attn_implementation = ATTENTION_NAME
        self._head = model.lm_head
        weight = self._core.embed_tokens.weight
        self._device = weight.device
        self._dtype = weight.dtype
        self.store = PageStore(kv_shape(model.config, self._dtype), slots, self._device)
        attention = sys.modules[type(self._core.layers[0].self_attn).__module__]
        self._apply_rotary = attention.apply_rotary_pos_emb

    @torch.inference_mode()
    def run(self, batch: StepBatch) -> StepResult:
        """Copy stored KV in, compute one step and draw the wanted tokens."""
        for load in batch.loads:
            self.load(load)
        context = self._attention_context(batch)
        hidden = self._hidden_states(batch, context)
        logits = self.logits(hidden, batch.rows)
        draws = [row.draw for row in batch.rows if row.draw is not None]
        broken_rows = _broken_rows(hidden, logits, batch.rows)
        scores = tuple(tuple(part.cpu().numpy() for part in row) for row in context.scores)
        return StepResult(draw_tokens(logits, draws), broken_rows, scores)

    @torch.inference_mode()
    def hidden_states(self, batch: StepBatch) -> Tensor:
        """Compute one step up to the last layer. Shapes: result [t, hidden].

        Mutates: writes the KV of all tokens of the step.
        """
        return self._hidden_states(batch, self._attention_context(batch))

    def _attention_context(self, batch: StepBatch) -> AttentionContext:
        decodes = decode_rows(batch.rows, self.store, self._core.config.num_attention_heads)
        others = batch.rows[len(decodes.rows) if decodes else 0 :]
        return AttentionContext(
            store=self.store,
            slots=torch.from_numpy(batch.slots).to(self._device),
            decodes=decodes,
            rows=others,
            blocks=tuple(query_blocks(row, self._dtype, self._device) for row in others),
            rotate_keys=self._rotate_keys,
            layers=len(self._core.layers),
        )

    def _hidden_states(self, batch: StepBatch, context: AttentionContext) -> Tensor:
        tokens = torch.from_numpy(batch.token_ids).to(self._device)
        positions = torch.from_numpy(batch.positions).to(self._device)[None]
        hidden: Tensor = self._core.embed_tokens(tokens[None])
        cos_sin = self._core.rotary_emb(hidden, positions)
        for layer in self._core.layers:
            hidden = layer(
                hidden,
                attention_mask=None,
                position_ids=positions,
                past_key_values=None,
                use_cache=False,
                position_embeddings=cos_sin,
                rows=context,
            )
        return hidden[0]

    @torch.inference_mode()
    def logits(self, hidden: Tensor, rows: Sequence[BatchRow]) -> Tensor:
        """Return the logits of the rows with a draw.

        Shapes: hidden [t, hidden]; result [rows with a draw, vocabulary] float32.
        """
        last = [row.query_stop - 1 for row in rows if row.draw is not None]
        wanted = hidden[torch.tensor(last, dtype=torch.long, device=self._device)]
        logits: Tensor = self._head(self._core.norm(wanted)).float()
        return logits

    @torch.inference_mode()
    def export_kv(self, slots: NDArray[np.int64]) -> KvBlock:
        """Copy the KV of these slots to the host. Shapes: slots [n]."""
        return self.store.export(slots)

    @torch.inference_mode()
    def export_chunk(self, slots: NDArray[np.int64], record: ChunkRecord) -> ChunkEntry:
        """Copy a chunk's KV out. Shapes: slots [record.tokens]."""
        return ChunkEntry(record, self.store.export(slots))

    @torch.inference_mode()
    def load_kv(self, slots: NDArray[np.int64], block: object) -> None:
        """Write a block of `export_kv` into these slots. Shapes: slots [n]."""
        assert isinstance(block, KvBlock), f"a {type(block).__name__} is not a KvBlock"
        self.store.load(slots, block)

    @torch.inference_mode()
    def load(self, load: SlotLoad) -> None:
        """Copy stored KV into the pool, its keys turned to their place."""
        block = load.block
        assert isinstance(block, KvBlock), f"a {type(block).__name__} is not a KvBlock"
        tokens = slice(load.offset, load.offset + len(load.slots))
        keys = self._turned(block.keys[:, :, tokens].to(self._device), load.rotation)
        values = block.values[:, :, tokens].to(self._device, self._dtype)
        self.store.load(load.slots, KvBlock(keys, values))

    def _rotate_keys(self, keys: Tensor, tokens: int) -> Tensor:
        """Turn stored keys by a distance. Shapes: keys and result [kv_heads, n, head_dim]."""
        return self._turned(keys[None], tokens)[0]

    def _turned(self, keys: Tensor, tokens: int) -> Tensor:
        """Turn stored keys by a distance. Shapes: keys and result [b, kv_heads, n, head_dim]."""
        keys = keys.to(self._dtype)
        if tokens == 0 or keys.shape[2] == 0:
            return keys
        rotary = self._core.rotary_emb
        exact = keys.float()
        cos, sin = rotary(exact, torch.full((1, 1), tokens, device=keys.device))
        # YaRN's attention scaling is in the stored keys already: applied once, not twice.
        scaling = getattr(rotary, "attention_scaling", 1.0)
        # The function turns queries as well: it gets one key in their place.
        _, turned = self._apply_rotary(exact[:, :, :1], exact, cos / scaling, sin / scaling)
        result: Tensor = turned.to(self._dtype)
        return result


def _broken_rows(hidden: Tensor, logits: Tensor, rows: Sequence[BatchRow]) -> frozenset[int]:
    """Return the rows whose states or logits are not finite.

    Shapes: hidden [t, hidden]; logits [rows with a draw, vocabulary].
    """
    # What holds a NaN or an infinity has a sum that is not finite: one pass for all rows.
    states = torch.isfinite(hidden.sum(dim=-1, dtype=torch.float32)).tolist()
    ends = iter(torch.isfinite(logits.sum(dim=-1)).tolist())
    broken = set()
    for index, row in enumerate(rows):
        is_end_finite = row.draw is None or next(ends)
        if not (is_end_finite and all(states[row.query_start : row.query_stop])):
            broken.add(index)
    return frozenset(broken)
