"""Picking tokens of reused chunks by any score."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.fusion.fused_prompt import Positions
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan

Scores = NDArray[np.float32]

NONE: Final[Positions] = np.empty(0, np.int64)


def budget_of(chunks: Iterable[ChunkSpan], ratio: float) -> int:
    """Return how many tokens of these chunks may be computed anew."""
    return int(ratio * sum(chunk.tokens for chunk in chunks))


def highest(positions: Positions, scores: Scores, count: int) -> Positions:
    """Return the `count` positions with the highest scores, ascending.

    Ties go to the earlier position, so equal scores select equally everywhere.
    Shapes: positions and scores [n], positions ascending; result [min(count, n)].
    """
    order = np.argsort(-scores, kind="stable")
    return np.sort(positions[order[:count]])


def positions_of(chunks: Iterable[ChunkSpan]) -> Positions:
    """Return the positions of all tokens of these chunks. Shapes: result [n]."""
    parts = [np.arange(chunk.start, chunk.stop, dtype=np.int64) for chunk in chunks]
    return np.concatenate([NONE, *parts])
