"""Muon: momentum whose matrix is made orthogonal before it is applied (Jordan et al. 2024).

All singular directions of an update get the same size, so that rare ones are learned as fast as
common ones.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration, from the reference
_ITERATIONS = 5


def orthogonalised(matrices: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly. Shapes: [n, rows, columns]."""
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, scaled to the size of an AdamW update.

    Args:
        params: matrices [rows, columns].
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override] - no closure
        """Apply one update to every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape.setdefault(weight.shape, []).append(weight)
            for weights in by_shape.values():
                self._update(group, weights)

    def _update(self, group: dict[str, float], weights: list[Tensor]) -> None:
        looks_ahead = []
        for weight in weights:
            state = self.state[weight]
            if not state:
                state["momentum"] = torch.zeros_like(weight)
            momentum = state["momentum"]
            momentum.lerp_(weight.grad, 1 - group["momentum"])
            looks_ahead.append(weight.grad.lerp(momentum, group["momentum"]))
        scale = 0.2 * max(weights[0].shape) ** 0.5
        for weight, update in zip(weights, orthogonalised(torch.stack(looks_ahead)), strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(update, alpha=-group["lr"] * scale)
