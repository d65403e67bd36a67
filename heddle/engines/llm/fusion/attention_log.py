"""What the tokens of a prompt look at while they are computed, for Cache-Craft."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.engines.llm.fusion.fused_prompt import Measured, Positions, Span
from heddle.engines.llm.fusion.prompt_layout import PromptLayout
from heddle.kv.chunk_attention import ChunkAttention


class AttentionLog:
    """How much the tokens of some chunks look at the prefix and at each chunk.

    Args:
        layout: of the prompt.
        starts: where the chunks begin that are to be stored.

    Mutates: `take` fills it in, in any order; a position may be computed again.
    Source: Cache-Craft (arXiv 2502.15734), eqs. 3-8.
    """

    def __init__(self, layout: PromptLayout, starts: Sequence[int]) -> None:
        self._layout = layout
        self._is_wanted = np.zeros(layout.tokens, dtype=np.bool_)
        for chunk in layout.chunks:
            self._is_wanted[chunk.start : chunk.stop] = chunk.start in starts
        shape = (layout.tokens, len(layout.chunks) + 1)
        self._means = np.full(shape, np.nan, np.float32)
        self._last = np.full(shape, np.nan, np.float32)

    @property
    def spans(self) -> tuple[Span, ...]:
        """What is looked at: the prefix, then the chunks."""
        chunks = ((chunk.start, chunk.stop) for chunk in self._layout.chunks)
        return ((0, self._layout.prefix_stop), *chunks)

    def wants(self, positions: Positions) -> bool:
        """Whether any of these positions is of a chunk that is to be stored."""
        return bool(self._is_wanted[positions[positions < self._layout.tokens]].any())

    def take(self, positions: Positions, measured: Measured) -> None:
        """Note what these positions gave to each span: mean over layers, and in the last one.

        Shapes: measured: two of [positions, spans].
        """
        means, last = measured
        is_prompt = positions < self._layout.tokens
        self._means[positions[is_prompt]] = means[is_prompt]
        self._last[positions[is_prompt]] = last[is_prompt]

    def of_chunk_at(self, start: int) -> ChunkAttention | None:
        """Return the attention of the chunk that begins there; None where a token is missing."""
        index = next(i for i, chunk in enumerate(self._layout.chunks) if chunk.start == start)
        span = self._layout.chunks[index]
        means, last = self._means[start : span.stop], self._last[start : span.stop]
        if np.isnan(means).any():
            return None
        before = slice(0, index + 1)  # the prefix and the chunks before it
        return ChunkAttention(
            impact=self._impact(index),
            inter=means[:, 1 : index + 1].sum(axis=0),
            weights=means[:, before].sum(axis=1),
            last_weights=last[:, before].sum(axis=1),
        )

    def _impact(self, index: int) -> float:
        """Return the chunk's CCI: attention to each token before it against that within it."""
        lengths = [stop - start for start, stop in self.spans]
        own = lengths[index + 1]
        start = self._layout.chunks[index].start
        totals = self._means[start : start + own].sum(axis=0)
        inter = sum(float(totals[j]) / (own * lengths[j]) for j in range(index + 1) if lengths[j])
        intra = float(totals[index + 1]) / own**2
        return 1.0 / (1.0 + math.exp(-inter / intra))
