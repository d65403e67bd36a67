"""Weights of 8 bits: each group of 32 inputs of an output has a scale and a low. (ADR 47)"""

from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

from heddle.core.errors import ConfigError

GROUP: Final = 32  # inputs that share a scale: `quantized.h`
CODE_MAX: Final = 255


class Grid(NamedTuple):
    """Weights `codes * scales + lows`.

    Q4_1 and Q8_0 of GGUF are such grids as well, with the same groups: nothing of them is lost.

    Shapes: codes [out, in] uint8; scales and lows [out, in / GROUP] float16.
    """

    codes: Tensor
    scales: Tensor
    lows: Tensor

    @property
    def outputs(self) -> int:
        """The rows of the matrix."""
        return self.codes.shape[0]

    @property
    def inputs(self) -> int:
        """The columns of the matrix."""
        return self.codes.shape[1]

    def values(self) -> Tensor:
        """Return the weights. Shapes: [out, in] float32."""
        codes = self.codes.view(self.outputs, -1, GROUP).float()
        values = codes * self.scales[..., None].float() + self.lows[..., None].float()
        return values.view(self.outputs, self.inputs)

    def reordered(self, order: Callable[[Tensor], Tensor]) -> "Grid":
        """Return the grid with its outputs in another order."""
        return Grid(*(order(part) for part in self))


def join_grids(grids: tuple[Grid, ...]) -> Grid:
    """Return the outputs of several grids, one after another."""
    return Grid(*(torch.cat(parts) for parts in zip(*grids, strict=True)))


def round_to_grid(weight: Tensor, name: str) -> Grid:
    """Return the finest grid for weights: each group's goes from its lowest to its highest.

    Args:
        weight: [out, in], of any number type.
        name: the layer's, for errors.
    Raises: ConfigError: groups don't fill a row, or weights lie outside of float16.
    """
    outputs, inputs = weight.shape
    if inputs % GROUP:
        raise ConfigError(
            f"weights is 'int8', which takes layers of a multiple of {GROUP} inputs; {name} has "
            f"{inputs}: use weights full"
        )
    groups = weight.detach().float().view(outputs, -1, GROUP)
    lows = groups.amin(dim=-1).half()
    steps = (groups.amax(dim=-1) - lows.float()) / CODE_MAX
    scales = _at_least(steps.clamp(min=0.0))
    if not bool((lows.isfinite() & scales.isfinite()).all()):
        raise ConfigError(
            f"weights is 'int8', and some of {name} are beyond 65504 or not finite: "
            "use weights full"
        )
    divisors = torch.where(scales > 0, scales, 1).float()
    codes = ((groups - lows[..., None].float()) / divisors[..., None]).round_()
    return Grid(codes.clamp_(0, CODE_MAX).to(torch.uint8).view(outputs, inputs), scales, lows)


def _at_least(steps: Tensor) -> Tensor:
    """Return positive numbers in float16, rounded up: so the highest weight has a code."""
    halves = steps.half()
    is_less = (halves.float() < steps) & halves.isfinite()
    return (halves.view(torch.int16) + is_less.to(torch.int16)).view(torch.float16)
