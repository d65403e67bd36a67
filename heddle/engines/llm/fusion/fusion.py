"""One prompt on its way through fusion: what is loaded, and which positions are computed."""

import logging
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.results import FusedKv
from heddle.engines.llm.fusion.fused_prompt import (
    NOT_SCORED,
    FusedPrompt,
    Measured,
    Positions,
    ReusedChunk,
    ScoredAhead,
    Span,
    Sweep,
    Sweeps,
)
from heddle.engines.llm.fusion.policies import sweeps_of
from heddle.engines.llm.fusion.prompt_layout import PromptLayout
from heddle.engines.llm.fusion.ratio_choice import RatioChoice
from heddle.engines.llm.fusion.selection import NONE, budget_of
from heddle.kv.chunk_key import HitKind

log = logging.getLogger(__name__)


class Stage(Enum):
    """What a fused prompt waits for or does."""

    LOADING = "loading"  # chunks on their way from disk
    READY = "ready"  # all in host memory; waits for a seat and pages
    COMPUTING = "computing"  # its policy's sweeps
    DONE = "done"  # an ordinary sequence from here on


@dataclass(frozen=True, slots=True)
class RowLoad:
    """Stored KV for positions [start, stop) of a row: tokens from `offset` of a block on, rotated.

    `rotation` is the real position minus the stored one [tokens].
    """

    start: int
    stop: int
    block: object
    offset: int
    rotation: int


@dataclass(slots=True, eq=False)
class _Seated:
    """A prompt that has a row: its policy at work, and how far the present sweep is."""

    prompt: FusedPrompt
    ratio: float
    sweeps: Sweeps
    now: Sweep
    measured: list[Measured] = field(default_factory=list)
    done: int = 0
    surveyed: int = 0
    surveying_s: float = 0.0
    computing_s: float = 0.0
    shares: bool = False
    needs_copies: bool = True


class Fusion:
    """The fused prefill of one prompt. (FusionRAG §3.2)

    The row reads the reused chunks from pages of others (`shared`), or else they are copied into
    it first (`copies`). Then come the sweeps of the policy: those that find out which tokens
    matter, and the one that computes all positions that are neither exact nor reused, or that were
    selected. Done, it stays with its sequence: one that loses its pages is put together again in
    the same way. `notes` go into its summary.

    Mutates: the fuser fills blocks in, the scheduler seats it and moves it along.
    """

    def __init__(
        self,
        layout: PromptLayout,
        reuse: KvReuse,
        reused: dict[int, ReusedChunk],
        now_s: float,
        notes: tuple[str, ...] = (),
        *,
        can_share: bool = False,
    ) -> None:
        self.layout = layout
        self.stage = Stage.LOADING
        self._reuse = reuse
        self._reused = reused  # by the chunk's index
        self._notes = notes
        # CacheBlend writes the first layers of every token.
        self.can_share = can_share and reuse.policy is not ReusePolicy.CACHEBLEND
        self._seated: _Seated | None = None
        self._ahead: ScoredAhead | None = None  # None: not looked for yet
        self._began_s = now_s
        self._loading_s = 0.0
        self._end_loading(now_s)

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens of the prompt still to be computed, as far as they are known."""
        if self.stage is Stage.READY:
            return self.layout.tokens
        if self.stage is Stage.COMPUTING:
            return len(self.now.positions) - self.done
        return 0

    @property
    def now(self) -> Sweep:
        """The present sweep."""
        return self._at_work.now

    @property
    def done(self) -> int:
        """Positions of the present sweep that are computed."""
        return self._at_work.done

    @property
    def shares(self) -> bool:
        """Whether the row reads reused chunks from pages of others."""
        return self._at_work.shares

    @property
    def first_fused(self) -> int:
        """The first position whose KV was not there before the fusion."""
        return self._at_work.prompt.exact_tokens

    @property
    def num_reserved_tokens(self) -> int:
        """How many more positions than the present one a later sweep may compute."""
        seated = self._at_work
        if seated.now.is_last:
            return 0
        return max(0, seated.prompt.computed_max(seated.ratio) - len(seated.now.positions))

    @property
    def num_exact_tokens(self) -> int:
        """The first positions whose KV is what full attention gives, bit for bit.

        A stored chunk may be lossless in kind and yet rounded by the store, so none counts.
        """
        return max(self._at_work.prompt.exact_tokens, self.layout.prefix_stop)

    @property
    def num_recomputed_tokens(self) -> int:
        """Reused tokens that the last sweep computes anew."""
        assert self.now.is_last, "other sweeps leave out tokens that hold no KV"
        return self.now.positions.size - self._at_work.prompt.uncovered.size

    @property
    def num_reused_tokens(self) -> int:
        """Tokens that keep exact or stored KV to the end."""
        uncovered = len(self._at_work.prompt.uncovered)
        return self.layout.tokens - uncovered - self.num_recomputed_tokens

    def take_load(self, key: bytes, block: object | None, error: float, now_s: float) -> bool:
        """Take the KV of a chunk that was on its way, None where the load failed (a miss).

        `error` is what storing it has cost.

        Returns: whether no chunk is on its way any more.
        """
        for index, chunk in list(self._reused.items()):
            if chunk.record.key == key and block is None:
                del self._reused[index]
            elif chunk.record.key == key:
                chunk.block, chunk.error = block, error
        return self._end_loading(now_s)

    def prompt(self, exact_tokens: int) -> FusedPrompt:
        """Return the prompt as it is on a row whose first positions hold exact KV already."""
        ahead = self._ahead or NOT_SCORED
        return FusedPrompt(self.layout, self._reuse, dict(self._reused), exact_tokens, ahead)

    def seat(self, prompt: FusedPrompt, choice: RatioChoice, *, shares: bool) -> None:
        """Begin with the sweeps, on chunks' pages that others read as well or on copies."""
        self._note(choice.note)
        sweeps = sweeps_of(prompt, choice.ratio)
        self._seated = _Seated(prompt, choice.ratio, sweeps, next(sweeps), shares=shares)
        if self._is_ahead:
            self._seated.surveyed = self.layout.tokens - self.layout.question_start
            self._seated.surveying_s = prompt.ahead.seconds
        self.stage = Stage.COMPUTING

    @property
    def wants_scores(self) -> bool:
        """Whether it is still to be found out if its question was run ahead of it."""
        return self._reuse.asks_alone and self._ahead is None

    @property
    def scorable(self) -> tuple[ReusedChunk, ...]:
        """The chunks whose tokens may be selected, however much of the prompt is cached."""
        return tuple(c for c in self._reused.values() if c.kind is not HitKind.EXACT)

    def take_scores(self, ahead: ScoredAhead) -> None:
        """Select by what the question looked at ahead; without scores it runs with its prompt.

        It stays with that where the prompt has to be put together again.
        """
        self._ahead = ahead
        if ahead.problem:
            self._notes += (ahead.problem,)

    def unseat(self) -> None:
        """Forget what was done: the row has lost its pages."""
        if self.stage is not Stage.LOADING:
            self._seated = None
            self.stage = Stage.READY

    def shared(self) -> tuple[ReusedChunk, ...]:
        """Return the chunks that the row reads from pages of others."""
        if not self.shares:
            return ()
        computed = self.now.positions if self.now.is_last else NONE
        found = []
        for chunk in self._reused.values():
            start, stop = max(chunk.span.start, self.first_fused), chunk.span.stop
            first, last = np.searchsorted(computed, (start, stop))
            if last - first < stop - start:  # at ratio 1 chunks are computed whole
                found.append(chunk)
        return tuple(found)

    def copies(self) -> tuple[RowLoad, ...]:
        """Return what is copied into the row before the next slice; mostly nothing."""
        if self._at_work.shares or not self._at_work.needs_copies:
            return ()
        exact_tokens = self._at_work.prompt.exact_tokens
        loads = []
        for chunk in self._reused.values():
            start, span = max(chunk.span.start, exact_tokens), chunk.span
            if start < span.stop:
                rotation = span.start - chunk.record.base
                load = RowLoad(start, span.stop, chunk.block, start - span.start, rotation)
                loads.append(load)
        return tuple(loads)

    def visible(self, stop: int) -> tuple[Span, ...]:
        """Return the spans of positions that `now.positions[:stop]` look at; the KV is there."""
        now = self.now
        if now.is_bottom_right:
            return ((0, self.layout.tokens - len(now.positions) + stop),)
        end = int(now.positions[stop - 1]) + 1
        if now.before is None:
            return ((0, end),)
        spans = (*now.before, (int(now.positions[0]), end))
        return tuple(span for span in spans if span[0] < span[1])

    def places(self, start: int, stop: int) -> Positions | None:
        """Return which of the visible positions `now.positions[start:stop]` count as.

        None: the last ones. Each sees what lies before its place.
        """
        now = self.now
        if now.is_bottom_right:
            first = self.layout.tokens - len(now.positions)
            return np.arange(first + start, first + stop, dtype=np.int64)
        return now.positions[start:stop] if now.before is None else None

    def advance(self, stop: int, measured: Measured, step_s: float) -> None:
        """Count `now.positions[:stop]` as computed, with what the last slice has measured."""
        seated = self._at_work
        seated.done, seated.needs_copies = stop, False
        seated.measured.append(measured)
        if seated.now.is_last:
            seated.computing_s += step_s
        else:
            seated.surveying_s += step_s
        if stop < len(seated.now.positions):
            return
        if seated.now.is_last:
            self.stage = Stage.DONE
        else:
            seated.surveyed += stop
            seated.now = seated.sweeps.send(seated.measured)
            seated.measured, seated.done = [], 0

    def summary(self) -> FusedKv:
        """Return what the prompt took from the store."""
        seated = self._at_work
        chunks, reused = range(len(self.layout.chunks)), self._reused.values()
        kinds = [self._reused[i].kind if i in self._reused else HitKind.MISS for i in chunks]
        return FusedKv(
            policy=self._reuse.policy.value,
            ratio=seated.ratio,
            chunks=dict(Counter(kind.value for kind in kinds)),
            tokens_recomputed=self.num_recomputed_tokens,
            tokens_shared=self._num_shared_tokens,
            tokens_from_device=sum(c.span.tokens for c in reused if c.is_from_device),
            tokens_from_disk=sum(c.span.tokens for c in reused if c.from_disk),
            tokens_surveyed=seated.surveyed,
            question=self._reuse.question if self._question_selected else None,
            was_ahead=self._is_ahead,
            chunks_primed=sum(c.record.variant.is_primed for c in reused),
            primed_with=self._reuse.wants_primed_with,
            stored_error=max((c.error for c in reused), default=0.0),
            notes=(*self._notes, *self._unlogged()),
            loading_s=self._loading_s,
            surveying_s=seated.surveying_s,
            computing_s=seated.computing_s,
        )

    @property
    def _is_ahead(self) -> bool:
        """Whether the scores of a question that was run ahead have selected what is computed."""
        seated = self._at_work
        budget = budget_of(seated.prompt.candidate_spans, seated.ratio)
        return bool(seated.prompt.ahead.scores) and seated.ratio < 1.0 and budget > 0

    @property
    def _question_selected(self) -> bool:
        return self._reuse.policy is ReusePolicy.FUSIONRAG and self._at_work.surveyed > 0

    @property
    def _num_shared_tokens(self) -> int:
        if not self.shares:
            return 0
        loaded = sum(stop - start for start, stop in self._at_work.prompt.loaded)
        return loaded - self.num_recomputed_tokens

    def _unlogged(self) -> tuple[str, ...]:
        """Say how many chunks Cache-Craft had to choose from without what they looked at."""
        if self._reuse.policy not in (ReusePolicy.CACHECRAFT, ReusePolicy.CACHECRAFT_FIXED):
            return ()
        candidates = self._at_work.prompt.candidates
        unknown = sum(chunk.record.attention is None for chunk in candidates)
        if not unknown:
            return ()
        return (
            f"{unknown} of {len(candidates)} reused chunks were stored without their attention: "
            f"{self._reuse.policy.value} took their first tokens, as epic does",
        )

    def _note(self, note: str) -> None:
        """Have the summary say why it isn't as asked for, once however often it is seated."""
        if note and note not in self._notes:
            log.info("%s", note)
            self._notes += (note,)

    def _end_loading(self, now_s: float) -> bool:
        if all(chunk.block is not None for chunk in self._reused.values()):
            self.stage = Stage.READY
            self._loading_s = now_s - self._began_s
        return self.stage is Stage.READY

    @property
    def _at_work(self) -> _Seated:
        assert self._seated is not None, "a fused prompt without a seat was asked for its sweeps"
        return self._seated
