"""Where layers of a step of few tokens are computed, one after another. (ADR 62)"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from heddle.kernels.operations import Operation


@runtime_checkable
class FewRowsLinear(Protocol):
    """A linear layer whose product with few rows can be described, for the kernel to compute."""

    @property
    def few_rows_max(self) -> int:
        """Most rows of `few_rows`; 0: it has none."""
        ...

    def scratch_bytes(self, threads: int) -> int:
        """What a product takes beside its inputs and outputs [bytes]."""
        ...

    def few_rows(self, rows: Tensor, out: Tensor, scratch: Tensor) -> Operation:
        """Return the product. Shapes: rows [n, in], out [n, out], contiguous."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LayerRoom:
    """The inputs, intermediate numbers and outputs of a layer.

    A layer's output is the sum of `states` and `attended`, which the next one adds up.

    Shapes: slots [t] int64; factors [t, head_dim / 2] complex64; states, normed and attended
    [t, hidden]; joined [t, (heads + 2 kv_heads) head_dim]; query and heads [t, heads, head_dim];
    gates [t, 2 inner]; gated [t, inner]; scratch [bytes] uint8.
    """

    slots: Tensor
    factors: Tensor
    states: Tensor
    normed: Tensor
    joined: Tensor
    query: Tensor
    heads: Tensor
    attended: Tensor
    gates: Tensor
    gated: Tensor
    scratch: Tensor


def few_rows(linear: object, rows: Tensor, out: Tensor, room: LayerRoom) -> Operation:
    """Return a linear layer's product, for the kernel to compute later.

    Shapes: rows [t, in]; out [t, out].
    """
    assert isinstance(linear, FewRowsLinear), "the kernel can't read these weights"
    return linear.few_rows(rows, out, room.scratch)
