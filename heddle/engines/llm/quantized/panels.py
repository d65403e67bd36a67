"""Weights on a grid as the compiled kernel reads them: `quantized.h`. (ADR 47)"""

from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heddle.engines.llm.model.grid import GROUP, Grid

SIDE_BY_SIDE: Final = 16  # outputs of a panel
QUAD: Final = 4  # inputs of an output that lie together
CODE_BYTES: Final = SIDE_BY_SIDE * GROUP
GROUP_BYTES: Final = CODE_BYTES + 2 * 2 * SIDE_BY_SIDE  # with scales and lows in float16


class Panels(NamedTuple):
    """A matrix of weights. Shapes: data [panels, in / GROUP, GROUP_BYTES] uint8, contiguous."""

    data: Tensor
    outputs: int

    @classmethod
    def of(cls, grid: Grid) -> "Panels":
        """Bring a grid into this layout; outputs that fill the last panel are 0."""
        filled = -grid.outputs % SIDE_BY_SIDE
        codes = F.pad(grid.codes, (0, 0, 0, filled))
        groups = grid.inputs // GROUP
        codes = codes.view(-1, SIDE_BY_SIDE, groups, GROUP // QUAD, QUAD).permute(0, 2, 3, 1, 4)
        sides = (
            F.pad(part, (0, 0, 0, filled)).view(-1, SIDE_BY_SIDE, groups).transpose(1, 2)
            for part in (grid.scales, grid.lows)
        )
        parts = (codes.flatten(2), *(part.contiguous().view(torch.uint8) for part in sides))
        return cls(torch.cat(parts, dim=2).contiguous(), grid.outputs)

    @property
    def inputs(self) -> int:
        """The columns of the matrix."""
        return self.data.shape[1] * GROUP

    def rows(self, outputs: Tensor) -> Tensor:
        """Return some rows of the matrix. Shapes: outputs [n] int64; result [n, in] float32."""
        panel, place = outputs // SIDE_BY_SIDE, outputs % SIDE_BY_SIDE
        groups = self.data.shape[1]
        codes = self.data[..., :CODE_BYTES].reshape(*self.data.shape[:2], -1, SIDE_BY_SIDE, QUAD)
        sides = self.data[..., CODE_BYTES:].view(torch.float16)
        sides = sides.view(*sides.shape[:2], 2, SIDE_BY_SIDE)
        scales, lows = sides[panel, :, :, place].float().unbind(dim=2)
        taken = codes[panel, :, :, place].reshape(-1, groups, GROUP).float()
        whole: Tensor = taken * scales[..., None] + lows[..., None]
        return whole.flatten(1)
