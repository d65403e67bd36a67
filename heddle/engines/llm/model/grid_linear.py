"""A linear layer whose weights are on a grid, before they are brought into panels. (ADR 47)"""

import torch.nn.functional as F
from torch import Tensor, nn

from heddle.engines.llm.model.grid import Grid


class GridLinear(nn.Module):
    """A linear layer that keeps its grid as it is; slow, and what faster ones are tested against.

    Args:
        grid: the weights.
        bias: [out]; None: there is none.
    """

    def __init__(self, grid: Grid, bias: Tensor | None) -> None:
        super().__init__()
        self.grid = grid
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.in_features, self.out_features = grid.inputs, grid.outputs

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T + bias. Shapes: rows [..., n, in]; result [..., n, out]."""
        return F.linear(rows, self.grid.values().to(rows.dtype), self.bias)
