"""A moving average of the trained weights: it answers better than the weights of any one step."""

import torch
from torch import Tensor, nn

DECAY = 0.998


class WeightAverage:
    """The average of a model's trained parameters over its last steps."""

    def __init__(self, model: nn.Module) -> None:
        self._trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.weights = {name: p.detach().clone() for name, p in self._trained.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the present weights in; early steps weigh more, as there is little to average."""
        share = 1 - min(DECAY, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), list(self._trained.values()), share)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the model's weights and their average; a second call restores both."""
        for name, parameter in self._trained.items():
            held = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name] = held

    def load(self, weights: dict[str, Tensor]) -> None:
        """Go on from a saved average."""
        for name, weight in weights.items():
            self.weights[name].copy_(weight)
