"""How much a chunk's tokens looked at what stood before the chunk when its KV was computed."""

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkAttention:
    """What Cache-Craft keeps of the prompt in which a chunk was computed. (arXiv 2502.15734)

    All weights are attention after the softmax, means over heads.

    Args:
        impact: how much the chunk's KV depends on what stood before it, the paper's CCI, in
            [0.5, 1).
        inter: what all its tokens together gave to each chunk before it, mean over layers; one
            number for each chunk of the record's `context`.
        weights: what each token gave to all that preceded the chunk, mean over layers.
        last_weights: the same in the last layer.

    Shapes: inter [len(record.context)], weights and last_weights [record.tokens], float32.
    """

    impact: float
    inter: Weights
    weights: Weights
    last_weights: Weights

    def pack(self) -> str:
        """Return it as text, for a file's header."""
        parts = ([self.impact], self.inter, self.weights, self.last_weights)
        return base64.b64encode(np.concatenate(parts).astype("<f4").tobytes()).decode()

    @classmethod
    def unpack(cls, text: str, context: int, tokens: int) -> "ChunkAttention":
        """Return what `pack` wrote for a chunk of `tokens` tokens behind `context` others.

        Raises: ValueError: it is something else.
        """
        numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
        if len(numbers) != 1 + context + 2 * tokens:
            raise ValueError(f"attention of {len(numbers)} numbers")
        impact, inter, weights, last = np.split(numbers, np.cumsum([1, context, tokens]))
        return cls(float(impact[0]), inter, weights, last)
