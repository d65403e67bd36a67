"""Which tokens of reused chunks are computed anew. (FusionRAG §3.2)"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.fusion.prompt_layout import ChunkSpan

Positions = NDArray[np.int64]
Scores = NDArray[np.float32]


def budget_of(chunks: Sequence[ChunkSpan], ratio: float) -> int:
    """Return how many tokens of these chunks may be computed anew."""
    return int(ratio * sum(chunk.tokens for chunk in chunks))


def highest(chunks: Sequence[ChunkSpan], scores: Sequence[Scores], ratio: float) -> Positions:
    """Return the positions with the highest scores over all chunks, ascending.

    Ties go to the earlier position, so equal scores select equally everywhere.
    Shapes: scores[i] [tokens of chunks[i]]; result [budget_of(chunks, ratio)] int64.
    """
    positions = _positions(chunks)
    order = np.argsort(-np.concatenate([*scores, np.empty(0, np.float32)]), kind="stable")
    return np.sort(positions[order[: budget_of(chunks, ratio)]])


def leading(chunks: Sequence[ChunkSpan], ratio: float) -> Positions:
    """Return the first tokens of each chunk, the same share of all. (EPIC, Hu et al. 2024)

    A chunk's first tokens act as attention sinks where it was computed alone, so they are the
    ones that mislead most. Shapes: result [n] int64, ascending.
    """
    parts = [
        np.arange(chunk.start, chunk.start + budget_of([chunk], ratio), dtype=np.int64)
        for chunk in chunks
    ]
    return np.concatenate([*parts, np.empty(0, np.int64)])


def _positions(chunks: Sequence[ChunkSpan]) -> Positions:
    parts = [np.arange(chunk.start, chunk.stop, dtype=np.int64) for chunk in chunks]
    return np.concatenate([*parts, np.empty(0, np.int64)])
