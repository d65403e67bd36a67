"""EPIC: the first tokens of each chunk. (Hu et al. 2024, arXiv 2410.15332)"""

from collections.abc import Iterable

import numpy as np

from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, Positions, Sweeps
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan
from heddle.engines.llm.fusion.selection import NONE, budget_of


def epic(prompt: FusedPrompt, ratio: float) -> Sweeps:
    """Compute the first tokens of each chunk anew, the same share of all."""
    yield prompt.last_sweep(leading(prompt.candidate_spans, ratio))


def leading(chunks: Iterable[ChunkSpan], ratio: float) -> Positions:
    """Return the first tokens of each chunk, the same share of all.

    A chunk's first tokens act as attention sinks where it was computed alone, so they are the
    ones that mislead most. Shapes: result [n], ascending.
    """
    parts = [
        np.arange(chunk.start, chunk.start + budget_of([chunk], ratio), dtype=np.int64)
        for chunk in chunks
    ]
    return np.concatenate([NONE, *parts])
