"""One prompt on its way through fusion: what is loaded, and which positions are computed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.results import FusedKv
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan, PromptLayout
from heddle.engines.llm.fusion.selection import Positions, Scores, budget_of, highest, leading
from heddle.kv.chunk_key import HitKind


class Stage(Enum):
    """What a fused prompt waits for or computes."""

    LOADING = "loading"  # chunks on their way from disk
    READY = "ready"  # all in host memory; waits for a seat and pages
    SCORING = "scoring"  # the question looks at the reused chunks
    COMPUTING = "computing"  # what isn't reused is computed


@dataclass(slots=True, eq=False)
class ReusedChunk:
    """KV found for a chunk; `block` is None until it is in host memory.

    `base` is the position at which its first key was computed.
    """

    key: bytes
    kind: HitKind
    base: int
    from_disk: bool
    block: object | None


@dataclass(frozen=True, slots=True)
class RowLoad:
    """Stored KV for positions [start, stop) of a row: tokens from `offset` of a block on, turned.

    `rotation` is the real position minus the stored one [tokens].
    """

    start: int
    stop: int
    block: object
    offset: int
    rotation: int


@dataclass(slots=True, eq=False)
class Fusion:
    """The fused prefill of one prompt. (FusionRAG §3.2)

    First the reused chunks are written into the row (`loads`), then, where the policy asks for
    it, the question runs over them (SCORING), and then every position that is neither exact nor
    reused, or that was selected, is computed in ascending order (COMPUTING).

    Mutates: the scheduler moves `done` along; the fuser fills blocks in and hands scores over.
    """

    layout: PromptLayout
    reuse: KvReuse
    reused: dict[int, ReusedChunk]  # by the chunk's index
    stage: Stage = Stage.LOADING
    positions: Positions = field(default_factory=lambda: np.empty(0, np.int64))
    done: int = 0
    exact_tokens: int = 0
    recomputed: int = 0
    needs_loads: bool = True
    _scores: list[Scores] = field(default_factory=list)

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens still to be computed, as far as they are known."""
        if self.stage is Stage.LOADING:
            return 0
        if self.stage is Stage.READY:
            return self.layout.tokens
        return len(self.positions) - self.done

    @property
    def is_last_stage(self) -> bool:
        """Whether the prompt is in once `positions` are computed."""
        return self.stage is Stage.COMPUTING

    @property
    def num_exact_tokens(self) -> int:
        """The first positions whose KV is what full attention gives, bit for bit.

        A stored chunk may be lossless in kind and yet rounded by the store, so none counts.
        """
        return max(self.exact_tokens, self.layout.prefix_stop)

    @property
    def candidates(self) -> tuple[ChunkSpan, ...]:
        """Reused chunks whose tokens may be computed anew; lossless ones need it nowhere."""
        chunks = self.layout.chunks
        return tuple(
            chunks[index]
            for index, reused in self.reused.items()
            if reused.kind is not HitKind.EXACT and chunks[index].start >= self.exact_tokens
        )

    def visible(self, stop: int) -> tuple[tuple[int, int], ...]:
        """Return the spans of positions that hold KV while `positions[:stop]` are computed.

        In the last stage everything before a position is there; what the question looks at in
        SCORING has gaps where chunks were not found.
        """
        end = int(self.positions[stop - 1]) + 1
        if self.is_last_stage:
            return ((0, end),)
        loaded = ((load.start, load.stop) for load in self.loads())
        spans = ((0, self.exact_tokens), *loaded, (int(self.positions[0]), end))
        return tuple(span for span in spans if span[0] < span[1])

    def scored(self, stop: int) -> tuple[tuple[int, int], ...]:
        """Return where the candidates lie among the visible positions, counted without gaps."""
        if self.stage is not Stage.SCORING:
            return ()
        starts = {chunk.start for chunk in self.candidates}
        found, length = [], 0
        for start, end in self.visible(stop):
            if start in starts:
                found.append((length, length + end - start))
            length += end - start
        return tuple(found)

    def __post_init__(self) -> None:
        self._end_loading()

    def take_load(self, key: bytes, block: object | None) -> bool:
        """Take the KV of a chunk that was on its way, None where the load failed (a miss).

        Returns: whether no chunk is on its way any more.
        """
        for index, chunk in list(self.reused.items()):
            if chunk.key == key and block is None:
                del self.reused[index]
            elif chunk.key == key:
                chunk.block = block
        return self._end_loading()

    def _end_loading(self) -> bool:
        if all(chunk.block is not None for chunk in self.reused.values()):
            self.stage = Stage.READY
        return self.stage is Stage.READY

    def seat(self, exact_tokens: int) -> None:
        """Begin on a row whose first positions hold exact KV already (the prefix cache)."""
        self.exact_tokens = exact_tokens
        if self.reuse.policy is ReusePolicy.FUSIONRAG and budget_of(
            self.candidates, self.reuse.ratio
        ):
            start = max(self.layout.question_start, exact_tokens)
            self._begin(Stage.SCORING, np.arange(start, self.layout.tokens, dtype=np.int64))
        else:
            self._compute(self._selected_by_place())

    def unseat(self) -> None:
        """Forget what was done: the row has lost its pages."""
        if self.stage is not Stage.LOADING:
            self.needs_loads = True
            self._begin(Stage.READY, np.empty(0, np.int64))

    def loads(self) -> tuple[RowLoad, ...]:
        """Return what the row must be filled with before the first position is computed."""
        loads = []
        for index, reused in self.reused.items():
            chunk = self.layout.chunks[index]
            start = max(chunk.start, self.exact_tokens)
            if start < chunk.stop:
                offset, rotation = start - chunk.start, chunk.start - reused.base
                loads.append(RowLoad(start, chunk.stop, reused.block, offset, rotation))
        return tuple(loads)

    def take_scores(self, scores: Sequence[Scores]) -> None:
        """Add the scores of a slice of the question, one array for each candidate."""
        self._scores = (
            [a + b for a, b in zip(self._scores, scores, strict=True)]
            if self._scores
            else list(scores)
        )
        if self.done == len(self.positions):
            self._compute(highest(self.candidates, self._scores, self.reuse.ratio))

    def summary(self) -> FusedKv:
        """Return what the prompt took from the store."""
        kinds = [self._kind(index).value for index in range(len(self.layout.chunks))]
        from_disk = [i for i, chunk in self.reused.items() if chunk.from_disk]
        return FusedKv(
            policy=self.reuse.policy.value,
            ratio=self.reuse.ratio,
            chunks=Counter(kinds),
            tokens_recomputed=self.recomputed,
            tokens_from_disk=sum(self.layout.chunks[index].tokens for index in from_disk),
        )

    def _kind(self, index: int) -> HitKind:
        return self.reused[index].kind if index in self.reused else HitKind.MISS

    def _selected_by_place(self) -> Positions:
        if self.reuse.policy is ReusePolicy.EPIC:
            return leading(self.candidates, self.reuse.ratio)
        return np.empty(0, np.int64)

    def _compute(self, selected: Positions) -> None:
        is_kept = np.zeros(self.layout.tokens, dtype=np.bool_)
        is_kept[: self.exact_tokens] = True
        for index in self.reused:
            chunk = self.layout.chunks[index]
            is_kept[chunk.start : chunk.stop] = True
        is_kept[selected] = False
        self.recomputed = len(selected)
        self._begin(Stage.COMPUTING, np.flatnonzero(~is_kept))

    def _begin(self, stage: Stage, positions: Positions) -> None:
        self.stage = stage
        self.positions = positions
        self.done = 0
        self._scores = []
