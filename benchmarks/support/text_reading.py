"""Reads texts with a model's weights kept in two ways, and compares what each foresees."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.support.text_model import TextModel
from heddle.core.dtypes import INT8, WHOLE

TOKENS: Final = 201  # of a passage: 200 of them have one behind them
AT_ONCE: Final = {"steps of 16": 16, "at once": TOKENS}


@dataclass(frozen=True, slots=True)
class Way:
    """A number type, how weights are kept, and how many tokens a step has, in words."""

    dtype: torch.dtype
    weights: str
    at_once: str


@dataclass(frozen=True, slots=True, eq=False)
class Foreseen:
    """The likeliest token behind each, and the loss of the one that stands there. Shapes: [n]."""

    tokens: Tensor
    losses: Tensor

    @property
    def loss(self) -> float:
        """Its mean."""
        return float(self.losses.mean())


def read_both_ways(
    directory: Path, texts: list[list[int]], dtype: torch.dtype
) -> list[dict[str, Any]]:
    """Return what changes by int8, and by the number type if it is not float32."""
    found: dict[Way, Foreseen] = {}
    numbers = dict.fromkeys([(dtype, WHOLE), (dtype, INT8), (torch.float32, WHOLE)])
    for number, weights in numbers:
        model = TextModel(directory, number, weights, TOKENS)
        for name, at_once in AT_ONCE.items():
            found[Way(number, weights, name)] = _foreseen(model, texts, at_once)
    pairs = []
    for name in AT_ONCE:
        full = Way(dtype, WHOLE, name)
        pairs.append((Way(dtype, INT8, name), full))
        if dtype is not torch.float32:
            pairs.append((full, Way(torch.float32, WHOLE, name)))
    return [compared(way, other, found) for way, other in pairs]


def _foreseen(model: TextModel, texts: list[list[int]], at_once: int) -> Foreseen:
    tokens, losses = [], []
    for text in texts:
        logits = model.logits(text, at_once)[:-1]
        tokens.append(logits.argmax(dim=-1))
        losses.append(F.cross_entropy(logits, torch.tensor(text[1:]), reduction="none"))
    return Foreseen(torch.cat(tokens), torch.cat(losses))


def compared(way: Way, other: Way, found: dict[Way, Foreseen]) -> dict[str, Any]:
    """Return how often two ways foresee the same token, and by how much perplexity rises."""
    one, two = found[way], found[other]
    return {
        "weights": way.weights,
        "dtype": str(way.dtype),
        "tokens": way.at_once,
        "beside": f"{other.weights} in {other.dtype}",
        "scored": len(one.tokens),
        "same_token": float((one.tokens == two.tokens).float().mean()),
        "perplexity": math.exp(one.loss),
        "perplexity_rise": math.exp(one.loss - two.loss) - 1,
    }
