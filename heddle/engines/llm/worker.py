"""Runs a step on the device: transformers' modules, our own layer loop, attention and pages."""

import sys
import time
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
    chunk_mask,
)
from heddle.engines.llm.sampler import draw_tokens
from heddle.engines.llm.step_batch import StepBatch, StepResult
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

    def run(self, batch: StepBatch) -> StepResult:
        """Compute one step and draw the wanted tokens."""
        draws = [row.draw for row in batch.rows if row.draw is not None]
        with torch.inference_mode():
            logits = self.logits(batch)
            return StepResult(draw_tokens(logits, draws) if draws else ())

    def logits(self, batch: StepBatch) -> Tensor:
        """Compute one step; return the logits of the rows with a draw.

        Shapes: result [rows with a draw, vocabulary] float32.
        Mutates: writes the KV of all tokens of the step.
        """
        with torch.inference_mode():
            hidden = self._forward(batch)
            last = [row.query_stop - 1 for row in batch.rows if row.draw is not None]
            if not last:
                return hidden.new_empty((0, self._head.out_features), dtype=torch.float32)
            wanted = hidden[0, torch.tensor(last, dtype=torch.long, device=self._device)]
            logits: Tensor = self._head(self._core.norm(wanted)).float()
            return logits

    def export_kv(self, slots: NDArray[np.int64]) -> KvBlock:
        """Copy the KV of these slots to the host. Shapes: slots [n]."""
        with torch.inference_mode():
            return self.store.export(slots)

    def load_kv(self, slots: NDArray[np.int64], block: object) -> None:
        """Write a block of `export_kv` into these slots. Shapes: slots [n]."""
        assert isinstance(block, KvBlock), f"a {type(block).__name__} is not a KvBlock"
        with torch.inference_mode():
            self.store.load(slots, block)

    def _forward(self, batch: StepBatch) -> Tensor:
        """Return the last layer's hidden states. Shapes: [1, t, hidden]."""
        tokens = torch.from_numpy(batch.token_ids).to(self._device)
        positions = torch.from_numpy(batch.positions).to(self._device)[None]
        context = AttentionContext(
            store=self.store,
            slots=torch.from_numpy(batch.slots).to(self._device),
            rows=batch.rows,
            masks=tuple(chunk_mask(row, self._dtype, self._device) for row in batch.rows),
            rotate_keys=self._rotate_keys,
        )
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
        return hidden

    def _rotate_keys(self, keys: Tensor, tokens: int) -> Tensor:
        """Turn stored keys by a distance. Shapes: keys and result [kv_heads, n, head_dim]."""
        if tokens == 0 or keys.shape[1] == 0:
            return keys
        rotary = self._core.rotary_emb
        positions = torch.full((1, keys.shape[1]), tokens, device=keys.device)
        exact = keys[None].float()
        cos, sin = rotary(exact, positions)
        # YaRN's attention scaling is in the stored keys already: applied once, not twice.
        scaling = getattr(rotary, "attention_scaling", 1.0)
        _, turned = self._apply_rotary(exact, exact, cos / scaling, sin / scaling)
        result: Tensor = turned[0].to(keys.dtype)
        return result
