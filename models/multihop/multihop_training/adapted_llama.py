"""A frozen Llama in bfloat16 whose upper layers carry a low-rank adapter."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import attended
from .samples import Sample

SCALE = 2.0  # of the product of the two factors, as usual twice the rank over the rank
PROJECTIONS = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}


@dataclass(frozen=True, slots=True)
class Form:
    """A model's numbers, from its config.json."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    theta: float

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Form":
        """Read them."""
        return cls(
            config["num_hidden_layers"],
            config["num_attention_heads"],
            config["num_key_value_heads"],
            config["head_dim"],
            config["rms_norm_eps"],
            config["rope_parameters"]["rope_theta"],
        )


class Factors(nn.Module):
    """The two factors of an adapted product's change: `up @ down`, in float32.

    Shapes: down [rank, in], up [out, rank].
    """

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        n_out, n_in = weight.shape
        self.down = nn.Parameter(torch.randn(rank, n_in) / math.sqrt(n_in))
        self.up = nn.Parameter(torch.zeros(n_out, rank))

    @property
    def change(self) -> Tensor:
        """What is added to the weight. Shapes: [out, in]."""
        return SCALE * (self.up @ self.down)


class AdaptedLlama(nn.Module):
    """The model; only the factors are trained.

    The adapted weights are added up and rounded in each step, as they are where they are used:
    so training sees the rounding, and a step costs one product more in its backward pass.

    Args:
        directory: a Hugging Face directory of Llama's architecture with tied embeddings.
        layers: how many of the uppermost layers are adapted.
        rank: of each change.
        seed: of the factors' first values.
        device: that computes, such as `cpu` or `cuda`.
    """

    def __init__(
        self, directory: Path, layers: int, rank: int, seed: int, device: str = "cpu"
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.form = Form.of(json.loads((directory / "config.json").read_text()))
        self.first_adapted = self.form.layers - layers
        adapted = [
            f"{name}.weight"
            for layer in range(self.first_adapted, self.form.layers)
            for name in projections(layer)
        ]
        # Those stay as they are stored, for the change is added to that.
        self.weights = {
            name: value if name in adapted else value.to(torch.bfloat16)
            for name, value in load_file(directory / "model.safetensors", device=device).items()
        }
        self.factors = nn.ModuleDict(
            {
                name.removesuffix(".weight").replace(".", "/"): Factors(self.weights[name], rank)
                for name in adapted
            }
        ).to(device)  # first values are drawn on the CPU, the same for every device
        self.device = torch.device(device)
        self._frozen = [self._layer(n) for n in range(self.first_adapted)]

    def answer_logits(self, samples: Sequence[Sample]) -> Tensor:
        """Return the logits that predict the samples' answer tokens, one sample after another."""
        ids = torch.tensor([i for sample in samples for i in sample.ids], device=self.device)
        lengths = [len(sample.ids) for sample in samples]
        places = torch.cat([torch.arange(length) for length in lengths]).to(self.device)
        turn = _turn(places, self.form)
        hidden = self.weights["model.embed_tokens.weight"][ids]
        with torch.no_grad():
            for layer in self._frozen:
                hidden = layer(hidden, turn, lengths)
        for number in range(self.first_adapted, self.form.layers):
            hidden = self._layer(number)(hidden, turn, lengths)
        asked = torch.tensor(list(_answer_places(samples)), device=self.device) - 1
        normed = _norm(hidden[asked], self.weights["model.norm.weight"], self.form.epsilon)
        return F.linear(normed, self.weights["model.embed_tokens.weight"]).float()

    def loss(self, samples: Sequence[Sample]) -> Tensor:
        """Return the mean over the samples of their answers' mean loss a token."""
        logits = self.answer_logits(samples)
        losses = F.cross_entropy(logits, answer_ids(samples).to(self.device), reduction="none")
        parts = torch.split(losses, [len(s.ids) - s.answer_start for s in samples])
        return torch.stack([part.mean() for part in parts]).mean()

    def _layer(self, number: int) -> "Layer":
        def weight(name: str) -> Tensor:
            full = f"model.layers.{number}.{name}"
            frozen = self.weights[f"{full}.weight"]
            key = full.replace(".", "/")
            if key not in self.factors:
                return frozen
            factors = self.factors[key]
            assert isinstance(factors, Factors)
            merged = (frozen.float() + factors.change).to(frozen.dtype)
            return merged.to(torch.bfloat16)

        attention, mlp = PROJECTIONS["self_attn"], PROJECTIONS["mlp"]
        return Layer(
            self.form,
            weight("input_layernorm"),
            torch.cat([weight(f"self_attn.{name}") for name in attention[:3]]),
            weight("self_attn.o_proj"),
            weight("post_attention_layernorm"),
            torch.cat([weight(f"mlp.{name}") for name in mlp[:2]]),
            weight("mlp.down_proj"),
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer over samples laid one behind the other."""

    form: Form
    norm: Tensor
    qkv: Tensor
    output: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor

    def __call__(self, hidden: Tensor, turn: tuple[Tensor, Tensor], lengths: list[int]) -> Tensor:
        """Shapes: hidden [tokens, d] and so the result; turn: cosines and sines of positions."""
        form = self.form
        mixed = F.linear(_norm(hidden, self.norm, form.epsilon), self.qkv)
        # Of heads that lie apart the backward pass of attention takes four times as long.
        heads = mixed.view(len(hidden), -1, form.head_dim).transpose(0, 1).contiguous()
        turned = form.heads + form.kv_heads
        q_and_k, values = heads[:turned], heads[turned:]
        cos, sin = turn
        q_and_k = q_and_k * cos + _halves_swapped(q_and_k) * sin
        queries, keys = q_and_k[: form.heads], q_and_k[form.heads :]
        split = (part.split(lengths, 1) for part in (queries, keys, values))
        seen = attended(*split, at_once=hidden.is_cuda)
        hidden = hidden + F.linear(seen.transpose(0, 1).reshape(len(hidden), -1), self.output)
        gate, up = F.linear(_norm(hidden, self.mlp_norm, form.epsilon), self.gate_up).chunk(2, -1)
        return hidden + F.linear(F.silu(gate) * up, self.down)


def projections(layer: int) -> Iterator[str]:
    """Yield the names of a layer's products."""
    for part, names in PROJECTIONS.items():
        for name in names:
            yield f"model.layers.{layer}.{part}.{name}"


def answer_ids(samples: Sequence[Sample]) -> Tensor:
    """Return the samples' answer tokens, one sample after another."""
    return torch.tensor([i for sample in samples for i in sample.ids[sample.answer_start :]])


def _answer_places(samples: Sequence[Sample]) -> Iterator[int]:
    start = 0
    for sample in samples:
        yield from range(start + sample.answer_start, start + len(sample.ids))
        start += len(sample.ids)


def _norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return F.rms_norm(hidden, weight.shape, weight, epsilon)


def _turn(places: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """Cosines and sines of RoPE; sines of the first half negated. Shapes: [tokens, head_dim]."""
    half = torch.arange(0, form.head_dim, 2, device=places.device) / form.head_dim
    angles = places[:, None] * form.theta**-half
    cos, sin = angles.cos(), angles.sin()
    return (
        torch.cat((cos, cos), -1).to(torch.bfloat16),
        torch.cat((-sin, sin), -1).to(torch.bfloat16),
    )


def _halves_swapped(heads: Tensor) -> Tensor:
    first, second = heads.chunk(2, -1)
    return torch.cat((second, first), -1)
