"""A BERT that reads rows of different lengths one behind the other, without padding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heddle.encoder.embedding_table import EmbeddingTable


class BertShape(NamedTuple):
    """What a BERT's weights don't say: its layers, its heads, and its norms' epsilon."""

    n_layers: int
    n_heads: int
    epsilon: float = 1e-12


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows of tokens, one behind the other. Shapes: ids, types and positions [n], int64."""

    ids: Tensor
    types: Tensor
    positions: Tensor
    lengths: Sequence[int]


class Linear(NamedTuple):
    """Shapes: weight [out, in]; bias [out]."""

    weight: Tensor
    bias: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T + bias."""
        return F.linear(rows, self.weight, self.bias)


class Norm(NamedTuple):
    """A layer norm after an addition. Shapes: scale and shift [d]."""

    scale: Tensor
    shift: Tensor
    epsilon: float

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the normalised rows."""
        return F.layer_norm(rows, self.scale.shape, self.scale, self.shift, self.epsilon)


class BertLayer(NamedTuple):
    """One layer; queries, keys and values are one product."""

    projection: Linear
    attention_output: Linear
    attention_norm: Norm
    inner: Linear
    output: Linear
    output_norm: Norm
    n_heads: int

    def __call__(self, hidden: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return the next layer's input [n, d]."""
        attended = attention(self.projection(hidden), lengths, self.n_heads)
        hidden = self.attention_norm(self.attention_output(attended).add_(hidden))
        return self.output_norm(self.output(F.gelu(self.inner(hidden))).add_(hidden))


class PackedBert:
    """A BERT's embeddings and layers.

    Args:
        table: its embeddings.
        weights: those of its layers, by their names in `transformers.BertModel`.
        shape: its sizes.

    Raises:
        KeyError: a weight is missing.
    """

    def __init__(
        self, table: EmbeddingTable, weights: Mapping[str, Tensor], shape: BertShape
    ) -> None:
        self.table, self._shape = table, shape
        self._layers = [
            _layer(weights, f"encoder.layer.{i}.", shape) for i in range(shape.n_layers)
        ]

    def __call__(self, rows: PackedRows) -> Tensor:
        """Return the last layer's states of all tokens [n, d]."""
        hidden = self.table.embed(rows.ids, rows.types, rows.positions, self._shape.epsilon)
        for layer in self._layers:
            hidden = layer(hidden, rows.lengths)
        return hidden


def attention(projected: Tensor, lengths: Sequence[int], n_heads: int) -> Tensor:
    """Return what each token attends to in its own row [n, d].

    Shapes: projected [n, 3 d]: queries, keys and values side by side.
    """
    width = projected.shape[1] // 3
    out = projected.new_empty(projected.shape[0], width)
    parts, targets = torch.split(projected, list(lengths)), torch.split(out, list(lengths))
    for part, target in zip(parts, targets, strict=True):
        query, key, value = part.view(len(part), 3, n_heads, -1).permute(1, 2, 0, 3)
        attended = F.scaled_dot_product_attention(query[None], key[None], value[None])[0]
        target.view(len(part), n_heads, -1).copy_(attended.transpose(0, 1))
    return out


def _layer(weights: Mapping[str, Tensor], prefix: str, shape: BertShape) -> BertLayer:
    def linear(name: str) -> Linear:
        return Linear(weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"])

    def norm(name: str) -> Norm:
        return Norm(*linear(f"{name}.LayerNorm"), shape.epsilon)

    parts = [linear(f"attention.self.{name}") for name in ("query", "key", "value")]
    return BertLayer(
        projection=Linear(
            torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        ),
        attention_output=linear("attention.output.dense"),
        attention_norm=norm("attention.output"),
        inner=linear("intermediate.dense"),
        output=linear("output.dense"),
        output_norm=norm("output"),
        n_heads=shape.n_heads,
    )
