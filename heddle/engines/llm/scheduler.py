"""Which tokens of which sequences the next step computes, and which pages hold them."""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.engines.llm.draft import NOTHING_DRAFTED, DraftPrice
from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.fusion.fused_prompt import (
    FusedPrompt,
    Measured,
    ReusedChunk,
)
from heddle.engines.llm.fusion.fusion import Fusion, Stage
from heddle.engines.llm.seat_choices import SeatChoices
from heddle.engines.llm.sequence import Sequence
from heddle.engines.llm.step_batch import (
    BatchRow,
    LastQueries,
    Measure,
    SlotLoad,
    SpanAttention,
    StepBatch,
    TokenScores,
    ValueDeviation,
)
from heddle.kv.chunk_pages import ChunkPages, SharedPages
from heddle.kv.page_ledger import PageLedger
from heddle.kv.prefix_index import PageChain, PrefixIndex
from heddle.kv.rows import Row, SharedSpan

_ORDER = attrgetter("order")


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """How much one step and the page pool may hold.

    Raises: ConfigError: a limit is not positive, or the pool can't hold one full context.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    page_size: int
    page_count: int
    context_tokens_max: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below max_num_seqs "
                f"({self.max_num_seqs}): a step could not decode every sequence; raise it"
            )
        if self.context_tokens_max > self.page_count * self.page_size:
            raise ConfigError(
                f"the KV pool holds {self.page_count * self.page_size} tokens, fewer than "
                f"context_tokens_max ({self.context_tokens_max}): raise kv_bytes or lower it"
            )


@dataclass(frozen=True, slots=True)
class Slice:
    """Tokens [start, stop) of a sequence in one step; `samples`: its next token is drawn.

    While a prompt is fused they are counted among the positions of its present sweep. The tokens
    of `draft` are computed behind them, and what follows each is drawn, too: the sequence has only
    those of them that turn out to be its own.
    """

    sequence: Sequence
    start: int
    stop: int
    samples: bool
    draft: tuple[int, ...] = ()

    @property
    def positions(self) -> NDArray[np.int64]:
        """Where the tokens stand, drafted ones last. Shapes: [queries] int64, ascending."""
        fusion = self.sequence.fusing
        if fusion is not None:
            return fusion.now.positions[self.start : self.stop]
        return np.arange(self.start, self.start + self.queries, dtype=np.int64)

    @property
    def queries(self) -> int:
        """Tokens that the step computes for it."""
        return self.stop - self.start + len(self.draft)

    @property
    def token_ids(self) -> list[int]:
        """These tokens."""
        known = self.sequence.token_ids
        kept = self.positions[: self.stop - self.start].tolist()
        return [*(known[place] for place in kept), *self.draft]

    @property
    def is_decode(self) -> bool:
        """Whether its next token is drawn behind one token, and drafted ones."""
        return self.samples and self.stop - self.start == 1

    @property
    def is_checked(self) -> bool:
        """Whether the tokens go through the first layers only."""
        fusion = self.sequence.fusing
        return fusion is not None and fusion.now.checks


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: the slices, and the same as arrays for the worker."""

    slices: tuple[Slice, ...]
    batch: StepBatch

    @property
    def features(self) -> dict[str, float]:
        """The counts that the cost model reads."""
        decodes = sum(part.is_decode for part in self.slices)
        return {
            "call": 1.0,
            "decode_tokens": float(decodes),
            "prefill_tokens": float(self.batch.tokens - self.batch.checked_tokens - decodes),
            "checked_tokens": float(self.batch.checked_tokens),
            "context_tokens": float(sum(row.context for row in self.batch.rows)),
            "drafted_tokens": float(sum(len(part.draft) for part in self.slices)),
            "drafted_rows": float(sum(part.is_decode and bool(part.draft) for part in self.slices)),
        }


class Scheduler:
    """Iteration-level continuous batching over a page pool.

    Every live sequence is in one of three places: *running* (has a seat), *waiting* (has work
    but no seat) or *parked* (nothing to compute until a segment is filled, a decode arrives or
    its lease ends). Decodes go first, then chunks of running prompts, then new ones; within each
    the order is class, then rank (`CallOrder`). What runs in the background has a seat only while
    no query has one or wants one. Pages run out: parked sequences lose theirs first, then the
    last in order; a preempted sequence recomputes what its cached pages no longer hold.

    Args:
        limits: of a step and of the pool.
        fingerprint: of the model.
        choices: settles how much of a fused prompt is computed anew when it gets its seat.

    Mutates: sequences' rows and counts; the ledger and the index are its own.
    """

    def __init__(self, limits: SchedulerLimits, fingerprint: str, choices: SeatChoices) -> None:
        self.limits = limits
        self._choices = choices
        self.ledger = PageLedger(limits.page_count, limits.page_size)
        self.index = PrefixIndex(self.ledger)
        self.chunk_pages = ChunkPages(self.ledger)
        self._fingerprint = fingerprint
        self._running: list[Sequence] = []
        self._waiting: list[Sequence] = []
        self._parked: dict[int, Sequence] = {}

    @property
    def running_count(self) -> int:
        """Sequences with a seat."""
        return len(self._running)

    @property
    def waiting_count(self) -> int:
        """Sequences that want a seat."""
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        """Whether a step would compute something."""
        return bool(self._running or self._waiting)

    def tokens_ahead_of(self, sequence: Sequence) -> int:
        """Return the tokens still to be computed of those who come before a sequence."""
        ahead = (s for s in (*self._running, *self._waiting) if s.order < sequence.order)
        return sum(s.num_remaining_tokens for s in ahead)

    def cached_tokens(self, sequence: Sequence, token_ids: list[int]) -> int:
        """Return how many of a prompt's first tokens would be read from cached pages now."""
        if not sequence.may_reuse:
            return 0
        full = max(0, len(token_ids) - 1) // self.limits.page_size
        digests = sequence.chain.extend(token_ids, full)
        return self.index.known_count(digests) * self.limits.page_size

    def new_row(self) -> Row:
        """Return an empty row of this pool."""
        return Row(self.limits.page_size)

    def new_chain(self, salt: str) -> PageChain:
        """Return the digest chain of a prompt of this tenant."""
        return PageChain(self._fingerprint, salt, self.limits.page_size)

    def add(self, sequence: Sequence) -> None:
        """Take a new sequence in; it starts where its known tokens put it."""
        self._parked[sequence.id] = sequence
        self.settle(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence and give its pages back."""
        self._leave(sequence)
        self._drop_pages(sequence)

    def settle(self, sequence: Sequence) -> None:
        """Put a sequence where it belongs after its tokens, segments or decode have changed."""
        if sequence.wants_seat == (sequence.id not in self._parked):
            return
        self._leave(sequence)
        if sequence.wants_seat:
            insort(self._waiting, sequence, key=_ORDER)
        else:
            self._parked[sequence.id] = sequence

    def reorder(self, sequence: Sequence) -> None:
        """Put a sequence where it belongs after its class has changed."""
        for queue in (self._running, self._waiting):
            if sequence in queue:
                queue.sort(key=_ORDER)

    def set_tokens(self, sequence: Sequence, token_ids: list[int]) -> None:
        """Give a sequence other tokens; what was computed of the common prefix stays."""
        common = 0
        for old, new in zip(sequence.token_ids, token_ids, strict=False):
            if old != new:
                break
            common += 1
        self.rewind(sequence, min(common, sequence.num_computed_tokens))
        sequence.token_ids = token_ids
        self.settle(sequence)

    def rewind(self, sequence: Sequence, length: int) -> None:
        """Forget the KV from position `length` on, or from a little before.

        A page that others read, or may find in the index, is never written again: if the cut
        falls into one, the whole page is dropped and its tokens are computed anew.
        """
        page_size = self.limits.page_size
        row = sequence.row
        full, rest = divmod(row.own_count(length), page_size)
        kept = full
        if rest and full < len(row.pages):
            page = row.pages[full]
            if self.ledger.is_cached(page) or self.ledger.refcount(page) > 1:
                length = full * page_size  # such pages hold a row's first positions
            else:
                kept = full + 1
        self._cut(row, length, kept)
        sequence.num_computed_tokens = min(sequence.num_computed_tokens, length)
        sequence.num_published_pages = min(sequence.num_published_pages, full)
        sequence.chain.truncate(full)

    def hold_pages(self, sequence: Sequence) -> bool:
        """Get pages for all its known tokens, taking them from parked ones; False if none."""
        return self._reach(sequence, {}, from_running=False)

    def backlog(self) -> dict[str, float]:
        """Return the features that the next step is likely to have."""
        decodes = [s for s in self._running if s.is_decoding]
        others = [s for s in self._running if not s.is_decoding] + self._waiting
        tokens = sum(s.num_remaining_tokens for s in others)
        room = self.limits.max_num_batched_tokens - len(decodes)
        context = sum(len(s.token_ids) for s in self._running)
        return {
            "call": 1.0,
            "decode_tokens": float(len(decodes)),
            "prefill_tokens": float(min(tokens, room)),
            "context_tokens": float(context),
        }

    def plan(
        self, prefill_tokens_max: int, draft_price: DraftPrice = NOTHING_DRAFTED
    ) -> StepPlan | None:
        """Decide the next step; None when nothing can run.

        Args:
            prefill_tokens_max: most prompt and drafted tokens beside the decodes, for a step's
                time budget.
            draft_price: of checking drafted tokens.

        Mutates: seats, pages, preemptions. Once the step has run, each slice is committed, or its
            sequence removed.
        """
        slices: dict[int, Slice] = {}
        self._unseat_background()
        for sequence in [s for s in self._running if s.is_decoding]:
            # An earlier one may have preempted this one for its pages.
            if sequence in self._running and self._reach(sequence, slices, from_running=True):
                slices[sequence.id] = self._slice(sequence, 1)
        left = self.limits.max_num_batched_tokens - len(slices)
        # Prompts go on beside drafts, and a step keeps to its time with them, too.
        drafted = self._draft(slices, min(left // 2, prefill_tokens_max), draft_price)
        budget = min(left - drafted, max(1, prefill_tokens_max - drafted))
        budget = self._admit(slices, self._continue_prefills(slices, budget))
        self._draft(slices, budget, draft_price)
        if not slices:
            return None
        # Stable: decodes of one token stay first. Rows that leave after the first layers come last.
        parts = tuple(sorted(slices.values(), key=lambda p: (p.is_checked, bool(p.draft))))
        return StepPlan(parts, _pack(parts))

    def commit(self, part: Slice, measured: Measured, step_s: float) -> None:
        """Note that a slice has run well: its KV is there, full pages can be found by others.

        `measured` is what the step has found out about it, where anything was wanted; the step
        took `step_s`.
        """
        sequence, fusion = part.sequence, part.sequence.fusing
        if sequence.attention is not None and sequence.attention.wants(part.positions):
            sequence.attention.take(part.positions, measured)
        if isinstance(sequence.purpose, Asking):
            sequence.purpose.take(part.start, *measured)
        if fusion is None:
            sequence.num_computed_tokens = part.stop
            self._publish(sequence)
            return
        for span in sequence.row.spans:
            self.chunk_pages.filled(span.pages)
        fusion.advance(part.stop, measured, step_s)
        if fusion.stage is Stage.DONE:
            self._end_fusion(sequence)

    def accept(self, sequence: Sequence) -> None:
        """Note that its newest token was drafted, and that its KV is there since this step."""
        sequence.num_computed_tokens += 1
        self._publish(sequence)

    def _end_fusion(self, sequence: Sequence) -> None:
        """Count a fused prompt as computed; only its exact part can be found by others."""
        fusion = sequence.fusion
        assert fusion is not None, f"sequence {sequence.id} is not fused"
        sequence.fused = fusion.summary()
        # A prompt that was fused before and amended since stands on approximate KV already.
        before = sequence.num_exact_tokens_max
        exact = fusion.num_exact_tokens
        sequence.num_exact_tokens_max = exact if before is None else min(before, exact)
        sequence.num_computed_tokens = fusion.layout.tokens
        sequence.num_reused_tokens = fusion.num_reused_tokens
        self._publish(sequence)

    def check(self, live: Iterable[Sequence]) -> None:
        """Assert that pages and places add up over all live sequences."""
        self.ledger.check()
        holders: dict[int, int] = {}
        for sequence in live:
            places = (
                (sequence in self._running)
                + (sequence in self._waiting)
                + (sequence.id in self._parked)
            )
            assert places == 1, f"sequence {sequence.id} is in {places} places"
            row = sequence.row
            own = row.own_count(sequence.num_computed_tokens)
            assert own <= row.capacity, "KV without pages"
            for page in chain(row.pages, *(span.pages.pages for span in row.spans)):
                holders[page] = holders.get(page, 0) + 1
        for page in range(self.limits.page_count):
            assert self.ledger.refcount(page) == holders.get(page, 0), f"page {page} leaked"

    def _slice(self, sequence: Sequence, tokens_max: int) -> Slice:
        """Return the next tokens of a sequence whose row has pages for them."""
        fusion = sequence.fusing
        if fusion is not None:
            start, end = fusion.done, len(fusion.now.positions)
            # One that comes back after a preemption goes on with the tokens that it has drawn.
            is_end = fusion.now.is_last and fusion.layout.tokens == len(sequence.token_ids)
        else:
            start, end = sequence.num_computed_tokens, len(sequence.token_ids)
            is_end = not sequence.has_pending
        stop = min(end, start + tokens_max)
        samples = is_end and stop == end and sequence.decode is not None
        return Slice(sequence, start, stop, samples)

    def _draft(self, slices: dict[int, Slice], tokens_max: int, price: DraftPrice) -> int:
        """Let slices that draw a token check drafted ones, too; return how many tokens these are.

        They take no seat and no page that another sequence holds.
        """
        left = tokens_max
        for key, part in slices.items():
            decode, fusing = part.sequence.decode, part.sequence.fusing
            if not part.samples or part.draft or fusing is not None or decode is None:
                continue
            room = self.limits.context_tokens_max - len(part.sequence.token_ids)
            useful = min(left, decode.num_tokens_left - 1, room - 1)
            own = price if part.is_decode else price._replace(row=0.0)
            draft = decode.offer(useful, own)
            draft = draft[: self._room_behind(part.sequence, len(draft))]
            slices[key] = replace(part, draft=draft)
            left -= len(draft)
        return tokens_max - left

    def _room_behind(self, sequence: Sequence, tokens: int) -> int:
        """Get slots for tokens behind those that a sequence has; return for how many there are."""
        row, page_size = sequence.row, self.limits.page_size
        own = row.own_count(len(sequence.token_ids))
        missing = -(-(own + tokens - row.capacity) // page_size)
        if missing > 0 and self.ledger.make_room(missing):
            row.extend(self.ledger.allocate(missing, row.pages[-1] if row.pages else None))
        return min(tokens, row.capacity - own)

    @property
    def has_queries(self) -> bool:
        """Whether anything but the background has a seat or wants one."""
        return any(not s.is_background for s in (*self._running, *self._waiting))

    def _unseat_background(self) -> None:
        """Take the background's seats while there are queries; its computed KV stays."""
        background = [s for s in self._running if s.is_background]
        if background and self.has_queries:
            for sequence in background:
                self._running.remove(sequence)
                insort(self._waiting, sequence, key=_ORDER)

    def _continue_prefills(self, slices: dict[int, Slice], budget: int) -> int:
        for sequence in [s for s in self._running if s.id not in slices]:
            if budget <= 0:
                break
            if sequence in self._running and self._reach(sequence, slices, from_running=True):
                slices[sequence.id] = self._slice(sequence, budget)
                budget -= slices[sequence.id].stop - slices[sequence.id].start
        return budget

    def _admit(self, slices: dict[int, Slice], budget: int) -> int:
        while self._waiting and len(self._running) < self.limits.max_num_seqs and budget > 0:
            sequence = self._waiting[0]
            if sequence.is_background and self.has_queries:
                break  # the background comes last in order, so no query waits behind it
            self._reuse_prefix(sequence)
            # One page in hand for each running sequence, or the next decodes would preempt.
            spare = len(self._running) * self.limits.page_size
            if not self._reach(sequence, slices, from_running=False, spare_tokens=spare):
                if sequence.row.is_empty or not self._running:
                    self._drop_pages(sequence)  # it starts over, from the pages cached at that time
                break
            self._waiting.remove(sequence)
            insort(self._running, sequence, key=_ORDER)
            slices[sequence.id] = self._slice(sequence, budget)
            budget -= slices[sequence.id].stop - slices[sequence.id].start
        return budget

    def _reuse_prefix(self, sequence: Sequence) -> None:
        """Start from the cached pages of the same prefix; the last token is always computed."""
        if not sequence.row.is_empty or not sequence.may_reuse:
            return
        full = (len(sequence.token_ids) - 1) // self.limits.page_size
        pages = self.index.match(sequence.chain.extend(sequence.token_ids, full))
        sequence.row.extend(pages)
        sequence.num_computed_tokens = len(pages) * self.limits.page_size
        sequence.num_published_pages = len(pages)
        if sequence.prefill_open and sequence.preemptions == 0:
            sequence.num_reused_tokens = sequence.num_computed_tokens

    def _reach(
        self,
        sequence: Sequence,
        slices: dict[int, Slice],
        *,
        from_running: bool,
        spare_tokens: int = 0,
    ) -> bool:
        """Make the row hold all known tokens; False if the sequence lost its own seat or waits.

        Mutates: may preempt others, whose slices are then taken out of the plan.
        """
        row, page_size = sequence.row, self.limits.page_size
        absent = self._lay_out(sequence)
        length = row.own_count(len(sequence.token_ids)) + _reserved(sequence)
        missing = max(0, -(-(length - row.capacity) // page_size))
        # A prompt may hold the same chunk twice.
        sizes = {chunk.record.key: chunk.record.tokens for chunk in absent}
        for_chunks = sum(map(self.chunk_pages.pages_for, sizes.values()))
        if missing + for_chunks == 0:
            return True
        spare = spare_tokens // page_size
        while not self.ledger.make_room(missing + for_chunks + spare):
            victim = self._victim(sequence, from_running=from_running)
            if victim is None:
                return False
            slices.pop(victim.id, None)
            self._preempt(victim)
            if victim is sequence:
                return False
        row.extend(self.ledger.allocate(missing, row.pages[-1] if row.pages else None))
        for chunk in absent:
            pages = self.chunk_pages.hold(chunk.record)
            pages = pages or self.chunk_pages.add(chunk.record, chunk.block)
            self._share(sequence, chunk, pages, was_there=False)
        return True

    def _lay_out(self, sequence: Sequence) -> list[ReusedChunk]:
        """Say where a fused prompt's positions lie; return the chunks that have no pages yet.

        Mutates: begins with the fusion's sweeps; holds the chunks' pages that are there.
        """
        fusion, row = sequence.fusing, sequence.row
        if fusion is None:
            return []
        if fusion.stage is Stage.READY:
            self._seat(sequence, fusion)
        if not fusion.shares:
            return []
        if fusion.done == 0:  # a new sweep
            row.lay(fusion.first_fused, fusion.now.positions, fusion.layout.tokens)
        absent = []
        known = {span.start for span in row.spans}
        for chunk in fusion.shared():
            if max(chunk.span.start, fusion.first_fused) in known:
                continue
            pages = self.chunk_pages.hold(chunk.record)
            if pages is None:
                absent.append(chunk)
            else:
                self._share(sequence, chunk, pages, was_there=True)
        return absent

    def _seat(self, sequence: Sequence, fusion: Fusion) -> None:
        """Begin with a fused prompt's sweeps. What logs its attention has copies of its chunks."""
        if fusion.wants_scores:
            fusion.take_scores(self._choices.scores(sequence))
        prompt = fusion.prompt(sequence.num_computed_tokens)
        choice = self._choices.ratio(sequence, prompt)
        shares = fusion.can_share and sequence.attention is None
        shares = shares and self._has_room(sequence.row, prompt, choice.ratio)
        fusion.seat(prompt, choice, shares=shares)

    def _has_room(self, row: Row, prompt: FusedPrompt, ratio: float) -> bool:
        """Whether the pool could hold chunks' pages beside a row's own, up to a full context.

        What is computed anew takes more room so than on copies; one that would not fit alone would
        wait for ever.
        """
        later = self.limits.context_tokens_max - prompt.layout.tokens
        own = row.own_count(prompt.exact_tokens) + prompt.computed_max(ratio) + later
        tokens = (own, *(chunk.record.tokens for chunk in prompt.reused.values()))
        held = sum(len(span.pages.pages) for span in row.spans)
        return held + sum(map(self.chunk_pages.pages_for, tokens)) <= self.limits.page_count

    def _share(
        self, sequence: Sequence, chunk: ReusedChunk, pages: SharedPages, *, was_there: bool
    ) -> None:
        assert sequence.fusion is not None, f"sequence {sequence.id} is not fused"
        if chunk.was_in_pool is None:
            chunk.was_in_pool = was_there
        start, stop = chunk.span.start, chunk.span.stop
        first = max(start, sequence.fusion.first_fused)
        sequence.row.share(SharedSpan(first, stop, start, pages))

    def _victim(self, asker: Sequence, *, from_running: bool) -> Sequence | None:
        """Return who loses its pages: a parked sequence, the last in order, or the asker."""
        idle = [s for s in (*self._parked.values(), *self._waiting) if not s.row.is_empty]
        idle = [s for s in idle if s is not asker]
        if idle:
            return max(idle, key=_ORDER)
        return self._running[-1] if from_running and self._running else None

    def _preempt(self, sequence: Sequence) -> None:
        """Take its pages; a parked sequence computes them anew only once someone needs them."""
        self._drop_pages(sequence)
        sequence.preemptions += 1
        if sequence in self._running:
            self._running.remove(sequence)
            insort(self._waiting, sequence, key=_ORDER)

    def _drop_pages(self, sequence: Sequence) -> None:
        self._cut(sequence.row, 0, 0)
        sequence.num_computed_tokens = 0
        sequence.num_published_pages = 0
        sequence.num_exact_tokens_max = None
        if sequence.fusion is not None:
            sequence.fusion.unseat()

    def _cut(self, row: Row, length: int, page_count: int) -> None:
        """Forget a row's positions from `length` on and its own pages from `page_count` on."""
        for pages in row.cut(length):
            self.chunk_pages.release(pages)
        self.ledger.release(row.truncate(page_count))

    def _leave(self, sequence: Sequence) -> None:
        self._parked.pop(sequence.id, None)
        for queue in (self._running, self._waiting):
            if sequence in queue:
                queue.remove(sequence)

    def _publish(self, sequence: Sequence) -> None:
        exact = sequence.num_computed_tokens
        if sequence.num_exact_tokens_max is not None:
            exact = min(exact, sequence.num_exact_tokens_max)
        full = exact // self.limits.page_size
        if full <= sequence.num_published_pages or not sequence.may_reuse:
            return
        digests = sequence.chain.extend(sequence.token_ids, full)
        for page, digest in enumerate(digests):
            if page >= sequence.num_published_pages:
                self.index.publish(digest, sequence.row.pages[page])
        sequence.num_published_pages = full


def _reserved(sequence: Sequence) -> int:
    """Return how many tokens more than it computes now a fused prompt will need slots for."""
    fusion = sequence.fusing
    return fusion.num_reserved_tokens if fusion is not None and fusion.shares else 0


def _pack(slices: tuple[Slice, ...]) -> StepBatch:
    token_ids: list[int] = []
    positions: list[NDArray[np.int64]] = []
    slots: list[NDArray[np.int64]] = []
    rows: list[BatchRow] = []
    loads: list[SlotLoad] = []
    filled: set[SharedPages] = set()
    for part in slices:
        sequence, places = part.sequence, part.positions
        query_start = len(token_ids)
        token_ids.extend(part.token_ids)
        positions.append(places)
        slots.append(sequence.row.slots(places))
        rows.append(_row(part, query_start))
        loads.extend(_copies(part))
        for span in sequence.row.spans:
            if span.pages.block is not None and span.pages not in filled:
                filled.add(span.pages)
                loads.append(SlotLoad(span.pages.slots, span.pages.block, 0, 0))
    return StepBatch(
        np.asarray(token_ids, dtype=np.int64),
        np.concatenate(positions),
        np.concatenate(slots),
        tuple(rows),
        tuple(loads),
    )


def _row(part: Slice, query_start: int) -> BatchRow:
    sequence, fusion = part.sequence, part.sequence.fusing
    decode = sequence.decode if part.samples else None
    draws = () if decode is None else decode.draws(part.draft)
    whole = ((0, part.start + part.queries),)
    visible = fusion.visible(part.stop) if fusion is not None else whole
    return BatchRow(
        query_start=query_start,
        query_stop=query_start + part.queries,
        context=sum(stop - start for start, stop in visible),
        runs=tuple(run for start, stop in visible for run in sequence.row.runs(start, stop)),
        draw=draws[0] if draws else None,
        places=fusion.places(part.start, part.stop) if fusion is not None else None,
        measure=_measure(part),
        shared=sequence.row.shared(visible),
        draft_draws=draws[1:],
    )


def _measure(part: Slice) -> Measure | None:
    sequence, fusion = part.sequence, part.sequence.fusing
    if isinstance(sequence.purpose, Asking):
        return LastQueries()
    if fusion is not None and fusion.now.checks:
        return ValueDeviation()
    if fusion is not None and fusion.now.scored:
        chunks = fusion.now.scored
        return TokenScores(tuple(sequence.row.stored(c.start, c.stop) for c in chunks))
    if sequence.attention is not None and sequence.attention.wants(part.positions):
        return SpanAttention(sequence.attention.spans)
    return None


def _copies(part: Slice) -> list[SlotLoad]:
    """Return the copies that fill a fused row before its first positions are computed."""
    fusion, row = part.sequence.fusing, part.sequence.row
    if fusion is None:
        return []
    return [
        SlotLoad(
            row.slots(np.arange(copy.start, copy.stop)), copy.block, copy.offset, copy.rotation
        )
        for copy in fusion.copies()
    ]
