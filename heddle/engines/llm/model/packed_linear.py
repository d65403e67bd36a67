"""Linear layers whose weights lie in memory as small steps read them fastest. (ADR 8)"""

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKED_ROWS_MAX: Final = 96  # beyond it the plain product is as fast
# Of all layouts that oneDNN makes, the best one for 2 to 32 rows, and as good as any for 64.
PACKED_FOR_ROWS: Final = 4


class PackedLinear(nn.Module):
    """A linear layer with a second copy of its weights, in oneDNN's blocked layout.

    A step that decodes has one row for each sequence, and torch lays weights out for many. The
    packed copy serves 2 to 96 rows. The loaded weights are stored column by column, which is
    fastest for a single row and as good for many.

    Args:
        linear: the layer to stand in for; float32, on the CPU.

    Mutates: the layer's weight is stored anew; it stays the same parameter.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias
        weight = linear.weight.detach()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)
        self.weight.data = weight.t().contiguous().t()

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T + bias. Shapes: rows [..., n, in]; result [..., n, out]."""
        if 1 < rows.shape[-2] <= PACKED_ROWS_MAX:
            result: Tensor = torch.ops.mkldnn._linear_pointwise(
                rows, self._packed, self.bias, "none", [], ""
            )
            return result
        return F.linear(rows, self.weight, self.bias)


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether packing pays: float32 on a CPU, and a torch with oneDNN's operators."""
    has_operators = hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    return device.type == "cpu" and dtype is torch.float32 and has_operators


def pack_linears(model: nn.Module) -> None:
    """Replace every linear layer of a model by a packed one. Mutates: the model."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                setattr(parent, name, PackedLinear(child))
