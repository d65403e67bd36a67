"""A BERT that reads rows of different lengths one behind the other, without padding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heddle.encoder.embedding_table import EmbeddingTable
from heddle.encoder.row_attention import Attend, attention_over

PACKED_FOR_ROWS: Final = 512
# With AVX2 oneDNN multiplies three rows at a time, so the third is free. With 8 counts an octave at
# most an eighth of the rows fills up, and a twentieth on average.
FILLED_UNIT: Final = 3
FILLED_UNIT_MAX: Final = 96
FILLED_UNITS_MAX: Final = 16


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


class Linear:
    """A product with weights that lie as the device reads them fastest.

    Args:
        weight: on the CPU it is stored in oneDNN's blocks, for batches of many rows.
        bias: added to each row.
    Shapes: weight [out, in]; bias [out].
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._is_packed = can_pack(weight)
        self._weight, self._bias = weight, bias
        if self._is_packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T + bias. Shapes: rows [n, in]; result [n, out]."""
        if not self._is_packed:
            return F.linear(rows, self._weight, self._bias)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._weight, self._bias, "none", [], "none"
        )
        return result

    def plus(self, rows: Tensor, residual: Tensor) -> Tensor:
        """Return the product plus a residual [n, out]."""
        if not self._is_packed:
            return F.linear(rows, self._weight, self._bias).add_(residual)
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            rows, residual, self._weight, self._bias, "add"
        )
        return result


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

    def __call__(self, hidden: Tensor, attend: Attend, wanted: Tensor | None = None) -> Tensor:
        """Return the next layer's input, of all tokens or of those that are wanted [n, d]."""
        attended = attend(self.projection(hidden))
        if wanted is not None:
            attended, hidden = attended[wanted], hidden[wanted]
        hidden = self.attention_norm(self.attention_output.plus(attended, hidden))
        inner = self.inner(hidden)
        torch.ops.aten.gelu_(inner)
        return self.output_norm(self.output.plus(inner, hidden))


class PackedBert:
    """A BERT's embeddings and layers.

    For each new number of rows oneDNN compiles its products anew, which takes 1 to 3 ms each, and
    never gives all of their memory back. So rows are filled up to one of few numbers.

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
        # In bfloat16 oneDNN's products are others, which this was not measured for.
        self._fills = can_pack(table.word) and table.word.dtype is torch.float32

    def __call__(self, rows: PackedRows, wanted: Tensor | None = None) -> Tensor:
        """Return the last layer's states [n, d]: of all tokens, or of those at `wanted` [n]."""
        count, filling = len(rows.ids), self._filling(len(rows.ids))
        hidden = self.table.embed(rows.ids, rows.types, rows.positions, self._shape.epsilon)
        attend = attention_over(rows.lengths, self._shape.n_heads, hidden, hidden.shape[1])
        if filling:
            hidden, attend = _filled(hidden, filling), _of_filled(attend, count, filling)
        *lower, last = self._layers
        for layer in lower:
            hidden = layer(hidden, attend)
        if wanted is None:
            return last(hidden, attend)[:count]
        places = F.pad(wanted, (0, self._filling(len(wanted))))  # the first token, again and again
        return last(hidden, attend, places)[: len(wanted)]

    def _filling(self, count: int) -> int:
        return filled_count(count) - count if self._fills else 0


def filled_count(count: int) -> int:
    """Return how many rows are computed for `count` of them: the next of few numbers."""
    if count <= 2 * FILLED_UNIT:
        return count
    unit = FILLED_UNIT
    while unit < FILLED_UNIT_MAX and unit * FILLED_UNITS_MAX < count:
        unit *= 2
    return -(-count // unit) * unit


def can_pack(weight: Tensor) -> bool:
    """Whether a weight can be stored in oneDNN's blocks: on a CPU, with its operators in torch.

    In bfloat16 oneDNN needs AVX-512 or AVX-NE-CONVERT; elsewhere torch multiplies by other means.
    """
    if weight.device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    if weight.dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype is torch.float32


def _filled(rows: Tensor, filling: int) -> Tensor:
    """Return rows [n, d] with `filling` rows of zeros behind them."""
    return F.pad(rows, (0, 0, 0, filling))


def _of_filled(attend: Attend, count: int, filling: int) -> Attend:
    """Return an attention over the first `count` rows; those that fill up attend to nothing."""
    return lambda projected: _filled(attend(projected[:count]), filling)


def _layer(weights: Mapping[str, Tensor], prefix: str, shape: BertShape) -> BertLayer:
    def pair(name: str) -> tuple[Tensor, Tensor]:
        return weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]

    def linear(name: str) -> Linear:
        return Linear(*pair(name))

    def norm(name: str) -> Norm:
        return Norm(*pair(f"{name}.LayerNorm"), shape.epsilon)

    parts = [pair(f"attention.self.{name}") for name in ("query", "key", "value")]
    return BertLayer(
        projection=Linear(
            torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])
        ),
        attention_output=linear("attention.output.dense"),
        attention_norm=norm("attention.output"),
        inner=linear("intermediate.dense"),
        output=linear("output.dense"),
        output_norm=norm("output"),
    )
