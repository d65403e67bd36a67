"""Several linear layers over the same inputs as one: one product in place of two or three."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heddle.engines.llm.model.grid import Grid, join_grids
from heddle.engines.llm.model.grid_linear import GridLinear


class LinearWeights(NamedTuple):
    """A linear layer's numbers, or their grid. Shapes: weight [out, in]; bias [out]."""

    weight: Tensor | Grid
    bias: Tensor | None

    @classmethod
    def of(cls, linear: nn.Linear | GridLinear) -> "LinearWeights":
        weight = linear.grid if isinstance(linear, GridLinear) else linear.weight.detach()
        return cls(weight, None if linear.bias is None else linear.bias.detach())

    def reordered(self, order: Callable[[Tensor], Tensor]) -> "LinearWeights":
        weight = self.weight
        ordered = weight.reordered(order) if isinstance(weight, Grid) else order(weight)
        return LinearWeights(ordered, None if self.bias is None else order(self.bias))


def joined_linear(*parts: LinearWeights) -> nn.Linear | GridLinear:
    """Return one layer that computes the outputs of several, one after another."""
    biases = [part.bias for part in parts if part.bias is not None]
    bias = torch.cat(biases) if biases else None
    if grids := tuple(part.weight for part in parts if isinstance(part.weight, Grid)):
        return GridLinear(join_grids(grids), bias)
    weight = torch.cat([part.weight for part in parts if isinstance(part.weight, Tensor)])
    outputs, inputs = weight.shape
    joined = nn.Linear(inputs, outputs, bias=bool(biases), device="meta")
    joined.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        joined.bias = nn.Parameter(bias, requires_grad=False)
    return joined
