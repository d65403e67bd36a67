"""Layers of the Llama family in fewer and longer operations, on a CPU. (ADR 10, ADR 45)"""

import math
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers.activations import SiLUActivation

from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.engines.llm.attention.compiled_rows import point_to_layer
from heddle.engines.llm.attention.context import AttentionContext, attend, attend_stored
from heddle.engines.llm.attention.key_rotation import rotated
from heddle.engines.llm.attention.token_store import new_tokens, store_tokens
from heddle.engines.llm.model.fused_types import fuses_on_cpu
from heddle.engines.llm.model.joined_linear import LinearWeights, joined_linear
from heddle.engines.llm.model.layer_room import LayerRoom, few_rows
from heddle.engines.llm.model.layer_steps import (
    gate_states,
    gates_of,
    norm_heads,
    norm_states,
    norms_of,
)
from heddle.kernels.borrowed_threads import BORROWED
from heddle.kernels.compiled_kernel import LayerWork, RowKernel
from heddle.kernels.operations import Operation
from heddle.kv.page_store import KvShape, PageStore

PAIRED: Final = "+pairs"  # says in a fingerprint that keys are stored as pairs


class FusedNorm(nn.Module):
    """RMSNorm in few operations; torch's own takes half as long again for 64 rows of 256.

    Args:
        norm: the module to stand in for.
        weight: another order of its weights.
    """

    def __init__(self, norm: Any, weight: Tensor | None = None) -> None:  # noqa: ANN401
        super().__init__()
        weight = norm.weight.detach() if weight is None else weight
        root = math.sqrt(len(weight))
        self.weight = nn.Parameter(weight.float() * root, requires_grad=False)
        self._least = torch.tensor(math.sqrt(norm.variance_epsilon) * root)
        self._least_number = float(self._least)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Return the normed states. Shapes: [..., size]."""
        norm = torch.linalg.vector_norm(hidden_states, dim=-1, keepdim=True, dtype=torch.float32)
        # x / sqrt(mean(x^2) + eps) is sqrt(size) x / sqrt(|x|^2 + size eps)
        normed: Tensor = (hidden_states / norm.hypot_(self._least)).mul_(self.weight)
        return normed.to(hidden_states.dtype)

    def sum_normed(
        self, kernel: RowKernel | None, hidden_states: Tensor, added: Tensor | None
    ) -> Tensor:
        """Add to states what a layer gave, and return them normed. Mutates: hidden_states."""
        if kernel is not None:
            return norm_states(kernel, hidden_states, added, self.weight, self._least_number)
        if added is not None:
            hidden_states.add_(added)
        return self.forward(hidden_states)

    def norm_heads(self, kernel: RowKernel, heads: Tensor) -> None:
        """Norm each head where it lies. Shapes: [t, heads, size]. Mutates: heads."""
        norm_heads(kernel, heads, self.weight, self._least_number)

    def operation(
        self, kernel: RowKernel, states: Tensor, added: Tensor | None, out: Tensor
    ) -> Operation:
        """Return what adds to states and norms them, for the kernel to run later.

        Shapes: [t, parts, size], the parts of a token side by side.
        """
        norms = norms_of(states, added, self.weight, self._least_number, out)
        return Operation(kernel.norm_tokens, norms)


class FusedAttention(nn.Module):
    """Self-attention with one product for queries, keys and values, and one for RoPE.

    The rows of the query and key weights are reordered, so that numbers that RoPE rotates together
    lie side by side. Scores stay the same; keys are stored in this order.

    Args:
        attention: transformers' module, whose `o_proj` is taken over.
    """

    def __init__(self, attention: Any) -> None:  # noqa: ANN401 - transformers' class
        super().__init__()
        self.config = attention.config
        self.layer_idx: int = attention.layer_idx
        self._scaling: float = attention.scaling
        self.head_dim: int = attention.head_dim
        self.heads = attention.q_proj.out_features // self.head_dim
        self._rotated_heads = self.heads + attention.k_proj.out_features // self.head_dim
        rotated = [LinearWeights.of(attention.q_proj), LinearWeights.of(attention.k_proj)]
        self.qkv_proj = joined_linear(
            *(weights.reordered(self._pairs_of) for weights in rotated),
            LinearWeights.of(attention.v_proj),
        )
        self.o_proj = attention.o_proj
        self.q_norm = self.k_norm = None
        if hasattr(attention, "q_norm"):
            self.q_norm, self.k_norm = (
                FusedNorm(norm, self._pairs_of(norm.weight.detach()))
                for norm in (attention.q_norm, attention.k_norm)
            )

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, ...],
        rows: AttentionContext,
        **kwargs: object,
    ) -> tuple[Tensor, None]:
        """Attend, as transformers' modules are called.

        Shapes: hidden_states and result [1, t, hidden]; position_embeddings one of
        [1, t, head_dim / 2] complex64.
        """
        joined = self.qkv_proj.forward(hidden_states)
        factors, layer = position_embeddings[0], self.layer_idx
        if rows.kernel is not None:
            for norm, heads in self._head_norms(joined[0]):
                norm.norm_heads(rows.kernel, heads)
            query = store_tokens(rows.kernel, rows.store, layer, rows.slots, joined, factors)
            out = attend_stored(rows, layer, query, self._scaling)
        else:
            out = attend(rows, layer, *self._rotated(joined, factors), self._scaling)
        return self.o_proj.forward(out.reshape(1, joined.shape[1], -1)), None

    def operations(
        self, kernel: RowKernel, room: LayerRoom, store: PageStore
    ) -> tuple[Operation, ...]:
        """Return the operations of `forward`, for the kernel to run later."""
        layer, work = self.layer_idx, LayerWork()
        point_to_layer(work, store, layer, room.query.transpose(0, 1), self._scaling, room.heads)
        tokens = new_tokens(store, layer, room.slots, room.joined, room.factors, room.query)
        return (
            few_rows(self.qkv_proj, room.normed, room.joined, room),
            *(
                norm.operation(kernel, heads, None, heads)
                for norm, heads in self._head_norms(room.joined)
            ),
            Operation(kernel.store_tokens, tokens),
            Operation(kernel.attend_rows, work),
            few_rows(self.o_proj, room.heads.flatten(1), room.attended, room),
        )

    def _rotated(self, joined: Tensor, factors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, the first two normed and rotated to their places.

        Shapes: joined [1, t, all of them]; factors [1, t, head_dim / 2] complex64;
        results [heads or kv_heads, t, head_dim].
        """
        tokens, heads, rotated_heads = joined.shape[1], self.heads, self._rotated_heads
        joined = joined.view(tokens, -1, self.head_dim)
        states = joined[:, :rotated_heads]
        if self.q_norm is not None and self.k_norm is not None:
            states = torch.cat((self.q_norm(states[:, :heads]), self.k_norm(states[:, heads:])), 1)
        states = rotated(states, factors[0, :, None]).to(joined.dtype).transpose(0, 1)
        return states[:heads], states[heads:], joined[:, rotated_heads:].transpose(0, 1)

    def _head_norms(self, joined: Tensor) -> tuple[tuple[FusedNorm, Tensor], ...]:
        """Return what norms queries and keys, and where they lie. Shapes: joined [t, all]."""
        if self.q_norm is None or self.k_norm is None:
            return ()
        heads = joined.view(len(joined), -1, self.head_dim)
        queries, keys = heads[:, : self.heads], heads[:, self.heads : self._rotated_heads]
        return (self.q_norm, queries), (self.k_norm, keys)

    def _pairs_of(self, rows: Tensor) -> Tensor:
        """Put the halves of each head side by side. Shapes: [heads * head_dim, ...]."""
        halves = rows.reshape(-1, 2, self.head_dim // 2, *rows.shape[1:])
        return halves.transpose(1, 2).flatten(0, 2)


class FusedMlp(nn.Module):
    """A gated MLP with one product for gate and up.

    Args:
        mlp: transformers' module, whose `down_proj` is taken over.
    """

    def __init__(self, mlp: Any) -> None:  # noqa: ANN401 - transformers' class
        super().__init__()
        self.gate_up_proj = joined_linear(
            LinearWeights.of(mlp.gate_proj), LinearWeights.of(mlp.up_proj)
        )
        self.down_proj = mlp.down_proj
        self.inner: int = mlp.gate_proj.out_features
        self.act_fn = mlp.act_fn
        self.is_silu = isinstance(mlp.act_fn, nn.SiLU | SiLUActivation)

    def forward(self, hidden_states: Tensor, kernel: RowKernel | None = None) -> Tensor:
        """Return the MLP's output. Shapes: [1, t, hidden]."""
        joined = self.gate_up_proj.forward(hidden_states)
        if kernel is not None and self.is_silu:
            gated = gate_states(kernel, joined)
        else:
            gate, up = joined.chunk(2, dim=-1)
            gated = self.act_fn.forward(gate).mul_(up)
        result: Tensor = self.down_proj.forward(gated)
        return result

    def operations(self, kernel: RowKernel, room: LayerRoom) -> tuple[Operation, ...]:
        """Return the operations of `forward`, for the kernel to run later."""
        return (
            few_rows(self.gate_up_proj, room.normed, room.gates, room),
            Operation(kernel.gate_tokens, gates_of(room.gates, room.gated)),
            few_rows(self.down_proj, room.gated, room.states, room),
        )


class FusedLayer(nn.Module):
    """A decoder layer that calls its parts directly.

    Each call of a module costs several microseconds of Python, and a small step hundreds of them.

    Args:
        layer: transformers' module, whose parts are fused.
    """

    def __init__(self, layer: Any) -> None:  # noqa: ANN401 - transformers' class
        super().__init__()
        self.self_attn = FusedAttention(layer.self_attn)
        self.mlp = FusedMlp(layer.mlp)
        self.input_layernorm = FusedNorm(layer.input_layernorm)
        self.post_attention_layernorm = FusedNorm(layer.post_attention_layernorm)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, ...],
        rows: AttentionContext,
        **kwargs: object,
    ) -> Tensor:
        """Compute a layer, as transformers' modules are called.

        Shapes: hidden_states and result [1, t, hidden]; position_embeddings see `FusedAttention`.
        """
        BORROWED.look()
        kernel = rows.kernel
        normed = self.input_layernorm.sum_normed(kernel, hidden_states, None)
        attended, _ = self.self_attn.forward(normed, position_embeddings, rows)
        normed = self.post_attention_layernorm.sum_normed(kernel, attended, hidden_states)
        return self.mlp.forward(normed, kernel).add_(attended)

    def room(self, tokens: int, shape: KvShape, scratch_bytes: int) -> LayerRoom:
        """Return room for this layer, or another one of the same sizes."""
        hidden, dtype = len(self.input_layernorm.weight), shape.dtype
        heads, inner = self.self_attn.heads, self.mlp.inner
        joined = heads + 2 * shape.kv_heads

        def numbers(*size: int) -> Tensor:
            return torch.empty(tokens, *size, dtype=dtype)

        return LayerRoom(
            slots=torch.empty(tokens, dtype=torch.int64),
            factors=torch.empty(tokens, shape.head_dim // 2, dtype=torch.complex64),
            states=numbers(hidden),
            normed=numbers(hidden),
            joined=numbers(joined * shape.head_dim),
            query=numbers(heads, shape.head_dim),
            heads=numbers(heads, shape.head_dim),
            attended=numbers(hidden),
            gates=numbers(2 * inner),
            gated=numbers(inner),
            scratch=torch.empty(scratch_bytes, dtype=torch.uint8),
        )

    def operations(
        self, kernel: RowKernel, room: LayerRoom, store: PageStore, *, is_first: bool
    ) -> tuple[Operation, ...]:
        """Return the operations of `forward`, for the kernel to run later.

        The output of the layer before comes in two parts, which this one adds.
        """
        before = None if is_first else room.attended
        return (
            self.input_layernorm.operation(kernel, room.states[:, None], before, room.normed),
            *self.self_attn.operations(kernel, room, store),
            self.post_attention_layernorm.operation(
                kernel, room.attended[:, None], room.states, room.normed
            ),
            *self.mlp.operations(kernel, room),
        )


def can_fuse(model: Any) -> bool:  # noqa: ANN401 - transformers' class
    """Whether the layers are of a kind that is known here, on a CPU (`fuses_on_cpu`)."""
    config = model.config
    attention = model.model.layers[0].self_attn
    dtype = str(model.dtype).removeprefix("torch.")
    is_plain = fuses_on_cpu(config.model_type, dtype, has_fast_bfloat16=multiplies_bfloat16())
    turns_all = 2 * model.model.rotary_emb.inv_freq.numel() == attention.head_dim
    return bool(is_plain and turns_all and model.device.type == "cpu")


def fuse_layers(model: Any) -> None:  # noqa: ANN401 - transformers' class
    """Replace the layers and the last norm of a model for which `can_fuse`, once.

    Mutates: the model. The KV that it computes has another order from then on (`PAIRED`).
    """
    if isinstance(model.model.layers[0].self_attn, FusedAttention):
        return
    model.model.layers = nn.ModuleList(FusedLayer(layer) for layer in model.model.layers)
    model.model.norm = FusedNorm(model.model.norm)
