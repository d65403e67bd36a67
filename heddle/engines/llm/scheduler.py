"""Which tokens of which sequences the next step computes, and who loses its pages for them."""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

from heddle.core.errors import ConfigError
from heddle.engines.llm.draft import NOTHING_DRAFTED, DraftPrice
from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.fusion.fused_prompt import Measured
from heddle.engines.llm.fusion.fusion import Fusion, Stage
from heddle.engines.llm.kv_cache import KvCache
from heddle.engines.llm.seat_choices import SeatChoices
from heddle.engines.llm.sequence import Sequence
from heddle.engines.llm.step_plan import Slice, StepPlan

_ORDER = attrgetter("order")


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """How much one step and the KV cache may hold.

    Raises: ConfigError: a limit is not positive, or the KV cache can't hold one full context.
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


class Scheduler:
    """Iteration-level continuous batching over a KV cache in pages.

    Every live sequence is in one of three places: *running* (has a seat), *waiting* (has work
    but no seat) or *parked* (nothing to compute until a segment is filled, a decode arrives or
    its lease ends). Decodes go first, then chunks of running prompts, then new ones; within each
    the order is class, then rank (`CallOrder`). What runs in the background has a seat only while
    no query has one or wants one. Pages run out: parked sequences lose theirs first, then the
    last in order; a preempted sequence recomputes what its cached pages no longer hold.

    Args:
        limits: of a step and of the KV cache.
        fingerprint: of the model.
        choices: settles how much of a fused prompt is computed anew when it gets its seat.

    Mutates: sequences' rows and counts; the KV cache is its own.
    """

    def __init__(self, limits: SchedulerLimits, fingerprint: str, choices: SeatChoices) -> None:
        self.limits = limits
        self.kv_cache = KvCache(limits.page_count, limits.page_size, fingerprint)
        self._choices = choices
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

    @property
    def has_queries(self) -> bool:
        """Whether anything but the background has a seat or wants one."""
        return any(not s.is_background for s in (*self._running, *self._waiting))

    def tokens_ahead_of(self, sequence: Sequence) -> int:
        """Return the tokens still to be computed of those who come before a sequence."""
        ahead = (s for s in (*self._running, *self._waiting) if s.order < sequence.order)
        return sum(s.num_remaining_tokens for s in ahead)

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

    def add(self, sequence: Sequence) -> None:
        """Take a new sequence in; it starts where its known tokens put it."""
        self._parked[sequence.id] = sequence
        self.settle(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence and give its pages back."""
        self._leave(sequence)
        self.kv_cache.drop(sequence)

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
        self.kv_cache.rewind(sequence, min(common, sequence.num_computed_tokens))
        sequence.token_ids = token_ids
        self.settle(sequence)

    def hold_pages(self, sequence: Sequence) -> bool:
        """Get pages for all its known tokens, of parked ones and of what waits behind it.

        False if there are none.
        """
        return self._reach(sequence, {}, from_running=False)

    def preempt(self, sequence: Sequence) -> None:
        """Take a sequence's pages and its seat.

        A parked one computes its KV anew only once a task needs it.
        """
        self.kv_cache.drop(sequence)
        sequence.preemptions += 1
        if sequence in self._running:
            self._unseat(sequence)

    def plan(
        self, prefill_tokens_max: int, draft_price: DraftPrice = NOTHING_DRAFTED
    ) -> StepPlan | None:
        """Decide the next step; None when nothing can run.

        1. The background gives its seats up while a query has one or wants one.
        2. Each decode gets one token. Where the cache has no page left for it, parked and waiting
           sequences lose theirs, then the running one that is last in order, if need be this one.
        3. Behind each decode, drafted tokens are checked that are likely to be right, in up to
           half of the tokens that are left.
        4. Running prompts go on, in order, until the budget of prompt tokens is used up. They take
           pages as decodes do.
        5. Waiting sequences get seats, in order, while there are seats, tokens and pages: at least
           one more page for each running sequence, and none that belongs to one of these. A prompt
           starts behind the longest beginning of it that lies in cached pages.
        6. Prompts that end in this step check drafted tokens as well, in what is left.

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
        return StepPlan.of(slices.values()) if slices else None

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
            self.kv_cache.publish(sequence)
            return
        self.kv_cache.filled(sequence)
        fusion.advance(part.stop, measured, step_s)
        if fusion.stage is Stage.DONE:
            self._end_fusion(sequence, fusion)

    def accept(self, sequence: Sequence) -> None:
        """Note that its newest token was drafted, and that its KV is there since this step."""
        sequence.num_computed_tokens += 1
        self.kv_cache.publish(sequence)

    def check(self, live: Iterable[Sequence]) -> None:
        """Assert that pages and places add up over all live sequences."""
        sequences = tuple(live)
        for sequence in sequences:
            places = (
                (sequence in self._running)
                + (sequence in self._waiting)
                + (sequence.id in self._parked)
            )
            assert places == 1, f"sequence {sequence.id} is in {places} places"
        self.kv_cache.check(sequences)

    def _end_fusion(self, sequence: Sequence, fusion: Fusion) -> None:
        """Count a fused prompt as computed; only its exact part can be found by others."""
        sequence.fused = fusion.summary()
        # A prompt that was fused before and amended since stands on approximate KV already.
        before = sequence.num_exact_tokens_max
        exact = fusion.num_exact_tokens
        sequence.num_exact_tokens_max = exact if before is None else min(before, exact)
        sequence.num_computed_tokens = fusion.layout.tokens
        sequence.num_reused_tokens = fusion.num_reused_tokens
        self.kv_cache.publish(sequence)

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
        return Slice(sequence, start, stop, samples, is_fused=fusion is not None)

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
            draft = draft[: self.kv_cache.room_behind(part.sequence, len(draft))]
            slices[key] = replace(part, draft=draft)
            left -= len(draft)
        return tokens_max - left

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
            self.kv_cache.reuse_prefix(sequence)
            # One page in hand for each running sequence, or the next decodes would preempt.
            spare = len(self._running)
            if not self._reach(sequence, slices, from_running=False, spare_pages=spare):
                if sequence.row.is_empty or not self._running:
                    self.kv_cache.drop(
                        sequence
                    )  # it starts over, from the pages cached at that time
                break
            self._waiting.remove(sequence)
            insort(self._running, sequence, key=_ORDER)
            slices[sequence.id] = self._slice(sequence, budget)
            budget -= slices[sequence.id].stop - slices[sequence.id].start
        return budget

    def _reach(
        self,
        sequence: Sequence,
        slices: dict[int, Slice],
        *,
        from_running: bool,
        spare_pages: int = 0,
    ) -> bool:
        """Make the row hold all known tokens; False if the sequence lost its own seat or waits.

        Mutates: may preempt others, whose slices are then taken out of the plan.
        """
        fusion = sequence.fusing
        if fusion is not None and fusion.stage is Stage.READY:
            self._begin_fusion(sequence, fusion)
        shortage = self.kv_cache.shortage(sequence)
        if shortage is None:
            return True
        while not self.kv_cache.ledger.make_room(shortage.pages + spare_pages):
            victim = self._victim(sequence, from_running=from_running)
            if victim is None:
                return False
            slices.pop(victim.id, None)
            self.preempt(victim)
            if victim is sequence:
                return False
        self.kv_cache.give(sequence, shortage)
        return True

    def _begin_fusion(self, sequence: Sequence, fusion: Fusion) -> None:
        """Begin with a fused prompt's sweeps. What logs its attention has copies of its chunks."""
        if fusion.wants_scores:
            fusion.take_scores(self._choices.scores(sequence))
        prompt = fusion.prompt(sequence.num_computed_tokens)
        choice = self._choices.ratio(sequence, prompt)
        later = self.limits.context_tokens_max - prompt.layout.tokens
        shares = fusion.can_share and sequence.attention is None
        shares = shares and self.kv_cache.holds_with_chunks(
            sequence.row, prompt, choice.ratio, later
        )
        fusion.seat(prompt, choice, shares=shares)

    def _victim(self, asker: Sequence, *, from_running: bool) -> Sequence | None:
        """Return who loses its pages: one without a seat, the last in order, or the asker.

        One that asks without a seat gets none of those that wait before it.
        """
        waiting = [s for s in self._waiting if from_running or s.order > asker.order]
        idle = [s for s in (*self._parked.values(), *waiting) if not s.row.is_empty]
        idle = [s for s in idle if s is not asker]
        if idle:
            return max(idle, key=_ORDER)
        return self._running[-1] if from_running and self._running else None

    def _unseat_background(self) -> None:
        """Take the background's seats while there are queries; its computed KV stays."""
        background = [s for s in self._running if s.is_background]
        if background and self.has_queries:
            for sequence in background:
                self._unseat(sequence)

    def _unseat(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        insort(self._waiting, sequence, key=_ORDER)

    def _leave(self, sequence: Sequence) -> None:
        self._parked.pop(sequence.id, None)
        for queue in (self._running, self._waiting):
            if sequence in queue:
                queue.remove(sequence)
