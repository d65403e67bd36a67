"""Layers of the Llama family in a third of the kernels, on a GPU. (ADR 58)

A short step waits for the host that launches its kernels: transformers' layers take about 45 each,
most of them for a few numbers. Here a layer is four products and five kernels of our own.
"""

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import SiLUActivation

from heddle.engines.llm.attention.context import AttentionContext, attend_stored
from heddle.engines.llm.model.fused_types import FUSED_TYPES
from heddle.engines.llm.model.joined_linear import LinearWeights, joined_linear

SIZE_MAX: Final = 1 << 14  # of states that one program norms
GATED_AT_ONCE: Final = 1024


class GpuNorm(nn.Module):
    """RMSNorm in one kernel.

    Args:
        norm: transformers' module.
    """

    def __init__(self, norm: Any) -> None:  # noqa: ANN401 - transformers' class
        super().__init__()
        self.weight = norm.weight
        self.epsilon = float(norm.variance_epsilon)
        self._sizes = {"SIZE": len(norm.weight), "BLOCK": _power_of_two(len(norm.weight))}

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Return the normed states. Shapes: [..., size]."""
        from heddle.engines.llm.model.gpu_layer_kernels import norm_rows

        states = hidden_states.contiguous()
        out = torch.empty_like(states)
        rows = states.numel() // self._sizes["SIZE"]
        norm_rows[(rows,)](out, states, self.weight, self.epsilon, **self._sizes)
        return out


class GpuAttention(nn.Module):
    """Self-attention with one product for queries, keys and values, and one kernel behind it.

    Keys are stored as transformers' module stores them.

    Args:
        attention: transformers' module, whose `o_proj` is taken over.
    """

    def __init__(self, attention: Any) -> None:  # noqa: ANN401 - transformers' class
        super().__init__()
        self.config = attention.config
        self.layer_idx: int = attention.layer_idx
        self.head_dim: int = attention.head_dim
        self._scaling: float = attention.scaling
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.qkv_proj = joined_linear(*map(LinearWeights.of, parts))
        self.o_proj = attention.o_proj
        self.q_norm = GpuNorm(attention.q_norm) if hasattr(attention, "q_norm") else None
        self.k_norm = GpuNorm(attention.k_norm) if hasattr(attention, "k_norm") else None
        self._heads = attention.q_proj.out_features // self.head_dim
        self._sizes = {
            "HEADS": self._heads,
            "KV_HEADS": attention.k_proj.out_features // self.head_dim,
            "HEAD_DIM": self.head_dim,
            "BLOCK": _power_of_two(self.head_dim // 2),
            "IS_NORMED": self.q_norm is not None,
        }

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, ...],
        rows: AttentionContext,
        **kwargs: object,
    ) -> tuple[Tensor, None]:
        """Attend, as transformers' modules are called.

        Shapes: hidden_states and result [1, t, hidden]; position_embeddings two of
        [1, t, head_dim].
        """
        attended = self.attended(hidden_states[0], position_embeddings, rows)
        return self.o_proj.forward(attended)[None], None

    def attended(
        self, states: Tensor, cos_sin: tuple[Tensor, ...], rows: AttentionContext
    ) -> Tensor:
        """Store keys and values, and return what the queries get, before the last product.

        Shapes: states [t, hidden]; cos_sin two of [1, t, head_dim]; result [t, heads * head_dim].
        """
        from heddle.engines.llm.model.gpu_layer_kernels import store_tokens

        joined = self.qkv_proj.forward(states)
        tokens = len(joined)
        query = joined.new_empty(tokens, self._heads, self.head_dim)
        keys, values = rows.store.keys[self.layer_idx], rows.store.values[self.layer_idx]
        # Without norms nothing reads their weights: any tensor stands in for them.
        query_weight, key_weight = (
            joined if norm is None else norm.weight for norm in (self.q_norm, self.k_norm)
        )
        cos, sin = (part[0].contiguous() for part in cos_sin)
        heads = joined.shape[1] // self.head_dim
        store_tokens[(tokens, heads)](
            query,
            keys,
            values,
            joined,
            cos,
            sin,
            rows.slots,
            query_weight,
            key_weight,
            0.0 if self.q_norm is None else self.q_norm.epsilon,
            keys.stride(0),
            **self._sizes,
            num_warps=1,
        )
        out = attend_stored(rows, self.layer_idx, query.transpose(0, 1), self._scaling)
        return out.reshape(tokens, -1)


class GpuMlp(nn.Module):
    """A gated MLP with one product for gate and up.

    Args:
        mlp: transformers' module, whose `down_proj` is taken over.
    """

    def __init__(self, mlp: Any) -> None:  # noqa: ANN401 - transformers' class
        super().__init__()
        self.gate_up_proj = joined_linear(*map(LinearWeights.of, (mlp.gate_proj, mlp.up_proj)))
        self.down_proj = mlp.down_proj

    def gated(self, states: Tensor) -> Tensor:
        """Return what goes into the last product. Shapes: [t, hidden] to [t, intermediate]."""
        from heddle.engines.llm.model.gpu_layer_kernels import gate_rows

        joined = self.gate_up_proj.forward(states)
        tokens, size = len(joined), joined.shape[1] // 2
        out = joined.new_empty(tokens, size)
        blocks = -(-size // GATED_AT_ONCE)
        gate_rows[(tokens, blocks)](out, joined, SIZE=size, BLOCK=GATED_AT_ONCE)
        return out


class GpuLayer(nn.Module):
    """A decoder layer that calls its parts directly.

    Args:
        layer: transformers' module, whose parts are fused.
    """

    def __init__(self, layer: Any) -> None:  # noqa: ANN401 - transformers' class
        super().__init__()
        self.self_attn = GpuAttention(layer.self_attn)
        self.mlp = GpuMlp(layer.mlp)
        self.input_layernorm = GpuNorm(layer.input_layernorm)
        self.post_attention_layernorm = GpuNorm(layer.post_attention_layernorm)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, ...],
        rows: AttentionContext,
        **kwargs: object,
    ) -> Tensor:
        """Compute a layer, as transformers' modules are called.

        Shapes: hidden_states and result [1, t, hidden]; position_embeddings see `GpuAttention`.
        """
        states = hidden_states[0]
        normed = self.input_layernorm.forward(states)
        attended = self.self_attn.attended(normed, position_embeddings, rows)
        states = _added(states, attended, self.self_attn.o_proj)
        gated = self.mlp.gated(self.post_attention_layernorm.forward(states))
        return _added(states, gated, self.mlp.down_proj)[None]


def can_fuse_on_gpu(model: Any) -> bool:  # noqa: ANN401 - transformers' class
    """Whether the layers of a model are of a kind that is known here, or are fused already."""
    config, layer = model.config, model.model.layers[0]
    if isinstance(layer, GpuLayer):
        return True
    if config.model_type not in FUSED_TYPES or config.hidden_size > SIZE_MAX:
        return False
    turns_all = 2 * model.model.rotary_emb.inv_freq.numel() == layer.self_attn.head_dim
    return turns_all and isinstance(layer.mlp.act_fn, nn.SiLU | SiLUActivation)


def fuse_on_gpu(model: Any) -> None:  # noqa: ANN401 - transformers' class
    """Replace the layers and the last norm of a model for which `can_fuse_on_gpu`, once.

    Mutates: the model. Needs memory for one layer more while it goes on.
    """
    layers = model.model.layers
    if isinstance(layers[0], GpuLayer):
        return
    for number, layer in enumerate(layers):
        layers[number] = GpuLayer(layer)
        if layer.input_layernorm.weight.is_cuda:
            # The old weights' memory, in pieces too small for the next ones, goes back at once.
            del layer
            torch.cuda.empty_cache()
    model.model.norm = GpuNorm(model.model.norm)


def _added(states: Tensor, inputs: Tensor, linear: nn.Linear) -> Tensor:
    """Return states with a product added to them. Shapes: states and result [t, out]."""
    if linear.bias is None:  # the product's own kernel adds
        return torch.addmm(states, inputs, linear.weight.t())
    return states + functional.linear(inputs, linear.weight, linear.bias)


def _power_of_two(number: int) -> int:
    """Return the least power of two that is as large."""
    return 1 << (number - 1).bit_length()
