"""Llamas of random weights, and random tokens: for time and memory, not for quality."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY: Final = 9216
FIRST_TOKEN: Final = 5  # those before it mean something to some engines


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama's sizes; `kv_heads` 0: as many as heads."""

    name: str
    layers: int
    hidden: int
    heads: int
    intermediate: int
    kv_heads: int = 0
    head_dim: int | None = None

    @property
    def stored_token_bytes(self) -> int:
        """Bytes of a token's KV in bfloat16, as the store keeps it."""
        head_dim = self.head_dim or self.hidden // self.heads
        return 2 * 2 * self.layers * (self.kv_heads or self.heads) * head_dim


def random_llama(
    shape: Shape,
    seed: int,
    context_tokens_max: int,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> LlamaForCausalLM:
    """Return a model; equal seeds, equal weights. `dtype` None: fp32 on a CPU, bfloat16 on CUDA."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads or shape.heads,
        head_dim=shape.head_dim or shape.hidden // shape.heads,
        intermediate_size=shape.intermediate,
        vocab_size=VOCABULARY,
        max_position_embeddings=context_tokens_max,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    if dtype is None:
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
    with torch.device(device):
        model = LlamaForCausalLM._from_config(config, dtype=dtype)
    return model.eval()


def random_tokens(count: int, *seed: int) -> tuple[int, ...]:
    """Draw tokens; equal seeds, equal tokens."""
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(FIRST_TOKEN, VOCABULARY, count).tolist())
