"""The input of a policy, a prompt with reused chunks, and its output, sweeps over the prompt."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.kv_reuse import KvReuse
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan, PromptLayout
from heddle.kv.chunk_key import HitKind
from heddle.kv.chunk_record import ChunkRecord

Positions = NDArray[np.int64]
Measured = tuple[NDArray[np.float32], ...]
Span = tuple[int, int]


@dataclass(slots=True, eq=False)
class ReusedChunk:
    """A chunk and the KV found for it; `block` is None until it is in host memory.

    `error` is what storing it has cost, as relative L2 error, known with the block. `before` are
    the digests of the chunks that stand before it in this prompt. `was_in_pool` says whether the
    pool had its KV when the prompt was first put together; None until it looked there.
    """

    span: ChunkSpan
    record: ChunkRecord
    kind: HitKind
    from_disk: bool
    block: object | None
    before: tuple[bytes, ...] = ()
    error: float = 0.0
    was_in_pool: bool | None = None

    @property
    def is_from_device(self) -> bool:
        """Whether the pool had its KV already, and nothing was loaded for this prompt."""
        return bool(self.was_in_pool) and not self.from_disk


@dataclass(frozen=True, slots=True, eq=False)
class ScoredAhead:
    """How much a question that was run ahead of its prompt looks at each token of some chunks.

    `scores` go by where the chunk starts; a question that wasn't there has none. `problem` says
    what went wrong, `seconds` is what scoring took.

    Shapes: scores [tokens of the chunk] each.
    """

    scores: Mapping[int, NDArray[np.float32]]
    problem: str = ""
    seconds: float = 0.0


NOT_SCORED: Final = ScoredAhead({})


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Positions that go through the model together, in slices from step to step.

    Where `before` is None each sees everything before it. Else the positions are neighbours, and
    see these spans and one another. `scored` chunks: how much the positions look at each of their
    tokens is measured. `checks`: the positions go through the first layers only, to measure how
    far their values move. `is_last`: the prompt is in once they are computed.
    `is_bottom_right`: they see what they would see as the last positions of the prompt.

    Shapes: positions [n] int64, ascending, at least one.
    """

    positions: Positions
    before: tuple[Span, ...] | None = None
    scored: tuple[ChunkSpan, ...] = ()
    checks: bool = False
    is_last: bool = False
    is_bottom_right: bool = False


Sweeps = Generator[Sweep, Sequence[Measured], None]
"""A policy at work: it yields sweeps, the last one last, and after each of the others is sent what
its slices have measured, in order."""


@dataclass(frozen=True, eq=False)
class FusedPrompt:
    """A prompt on a row: where its parts lie, and which of its positions hold KV already.

    The first `exact_tokens` positions hold exact KV (the prefix cache). `ahead` has scores where
    the question was run before the prompt was known.
    """

    layout: PromptLayout
    options: KvReuse
    reused: Mapping[int, ReusedChunk]  # by the chunk's index, ascending
    exact_tokens: int
    ahead: ScoredAhead = NOT_SCORED

    @property
    def candidates(self) -> tuple[ReusedChunk, ...]:
        """Reused chunks whose tokens may be computed anew; lossless ones need it nowhere."""
        return tuple(
            chunk
            for chunk in self.reused.values()
            if chunk.kind is not HitKind.EXACT and chunk.span.stop > self.exact_tokens
        )

    @property
    def candidate_spans(self) -> tuple[ChunkSpan, ...]:
        """Where the candidates lie: a ratio is a share of their tokens."""
        return tuple(self.left_of(chunk.span) for chunk in self.candidates)

    def left_of(self, span: ChunkSpan) -> ChunkSpan:
        """Return what of a chunk holds no exact KV: two prompts may part within one."""
        start = max(span.start, self.exact_tokens)
        return replace(span, start=start, token_ids=span.token_ids[start - span.start :])

    @property
    def candidate_scores(self) -> NDArray[np.float32] | None:
        """The scores of the candidates' tokens, in their order, where the question was run ahead.

        Shapes: [tokens of all candidates].
        """
        if not self.ahead.scores:
            return None
        scores = [
            self.ahead.scores[chunk.span.start][-self.left_of(chunk.span).tokens :]
            for chunk in self.candidates
        ]
        return np.concatenate(scores)

    @property
    def loaded(self) -> tuple[Span, ...]:
        """Where stored KV is written before the first sweep."""
        spans = [chunk.span for chunk in self.reused.values()]
        starts = [max(span.start, self.exact_tokens) for span in spans]
        return tuple((a, span.stop) for a, span in zip(starts, spans, strict=True) if a < span.stop)

    @property
    def question(self) -> Positions:
        """The positions of the question that hold no exact KV."""
        start = max(self.layout.question_start, self.exact_tokens)
        return np.arange(start, self.layout.tokens, dtype=np.int64)

    @cached_property
    def uncovered(self) -> Positions:
        """The positions that hold neither exact nor stored KV, the question's among them."""
        is_covered = np.zeros(self.layout.tokens, dtype=np.bool_)
        for start, stop in ((0, self.exact_tokens), *self.loaded):
            is_covered[start:stop] = True
        return np.flatnonzero(~is_covered)

    def computed_max(self, ratio: float) -> int:
        """Return how many positions the last sweep computes at most, under any policy."""
        tokens = sum(span.tokens for span in self.candidate_spans)
        # One policy rounds up, chunk by chunk.
        return len(self.uncovered) + math.ceil(ratio * tokens) + len(self.candidate_spans)

    def last_sweep(self, selected: Positions) -> Sweep:
        """Return the sweep that computes what holds no KV, and what was selected. (FusionRAG §4.3)

        Shapes: selected [n] int64, positions of candidates.
        """
        return Sweep(np.union1d(self.uncovered, selected), is_last=True)
