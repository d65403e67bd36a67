"""One prompt and what is generated after it: tokens, pages and who waits for them."""

import math
from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace

import numpy as np

from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.payloads import NO_PAUSE, Pause, Sampling, Segment
from heddle.core.results import FusedKv, KvTransfer, Primed
from heddle.core.tasks import Priority
from heddle.engines.llm.draft import NOTHING_DRAFTED, Draft, DraftPrice
from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.fusion.attention_log import AttentionLog
from heddle.engines.llm.fusion.fusion import Fusion, Stage
from heddle.engines.llm.grammar import Grammar
from heddle.engines.llm.step_batch import Draw
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.prefix_index import PageChain
from heddle.kv.rows import Row


@dataclass(slots=True, eq=False)
class Decode:
    """A decode task that continues a sequence.

    The first `num_continued_tokens` of `output_ids` were written by earlier decodes. `transfer`
    says how its prompt came from another lane. `draft` is a likely text of it, `grammar` says what
    the text has to be.

    Mutates: `write` adds to `output_ids`; the engine moves `reported` along.
    """

    task_id: int
    sampling: Sampling
    report_every: int
    pause: Pause = NO_PAUSE
    output_ids: list[int] = field(default_factory=list)
    num_continued_tokens: int = 0
    reported: int = 0
    transfer: KvTransfer | None = None
    draft: Draft = field(default_factory=Draft)
    grammar: Grammar | None = None

    def take_over(self, token_ids: list[int], resumes: int) -> None:
        """Go on after what was written and reported; the last `resumes` tokens count as its own."""
        self.output_ids = token_ids
        self.reported = len(token_ids)
        self.num_continued_tokens = len(token_ids) - resumes
        for token in token_ids:
            self.draft.write(token)

    def write(self, token: int) -> None:
        """Add a token."""
        self.output_ids.append(token)
        self.draft.write(token)
        if self.grammar is not None:
            self.grammar.write(token)

    @property
    def may_draft(self) -> bool:
        """Whether something may be known of its text before it is written."""
        return bool(self.draft.token_ids) or self.grammar is not None

    def offer(self, tokens_max: int, price: DraftPrice) -> tuple[int, ...]:
        """Return the tokens that should come next, as many as are worth being checked."""
        if self.grammar is None or price.token == NOTHING_DRAFTED.token:
            return self.draft.offer(tokens_max, price)
        return self.draft.offer(tokens_max, price, self.grammar.forced())

    @property
    def problem(self) -> str:
        """Why it can't go on; empty while it can."""
        return "" if self.grammar is None else self.grammar.problem

    @property
    def is_over(self) -> bool:
        """Whether its text has its whole form, and nothing may follow."""
        return self.grammar is not None and self.grammar.is_over

    @property
    def is_at_interval(self) -> bool:
        """Whether it has written as many tokens of its own as it should before it pauses."""
        own = len(self.output_ids) - self.num_continued_tokens
        return self.pause.after is not None and own >= self.pause.after

    @property
    def num_tokens_left(self) -> int:
        """How many more tokens it may write before it ends or pauses."""
        left = self.sampling.max_tokens - len(self.output_ids)
        if self.pause.after is None:
            return left
        return min(left, self.pause.after + self.num_continued_tokens - len(self.output_ids))

    def doubts(self, probability: float) -> bool:
        """Whether it should pause before a token of this probability."""
        has_begun = len(self.output_ids) > self.num_continued_tokens
        return has_begun and self.pause.below is not None and probability < self.pause.below

    def draws(self, drafted: Items[int]) -> tuple[Draw, ...]:
        """Return how the next token is chosen, and the one behind each drafted one."""
        draws = (self._draw_after(ahead) for ahead in range(1 + len(drafted)))
        if self.grammar is None:
            return tuple(draws)
        masks = self.grammar.masks(drafted)
        return tuple(replace(draw, mask=mask) for draw, mask in zip(draws, masks, strict=True))

    def _draw_after(self, ahead: int) -> Draw:
        """Return how the token behind the next `ahead` ones is chosen, but for its mask.

        It depends on the seed and on the token's number only.
        """
        sampling, wants_probability = self.sampling, self.pause.below is not None
        if sampling.temperature <= 0.0:
            return Draw(wants_probability=wants_probability)
        bits = np.random.Philox(key=sampling.seed, counter=[0, 0, 0, len(self.output_ids) + ahead])
        uniform = float(np.random.Generator(bits).random())
        return Draw(
            sampling.temperature, sampling.top_p, sampling.top_k, uniform, wants_probability
        )


@dataclass(frozen=True, slots=True)
class Capture:
    """Positions [start, stop) of a prompt whose KV is worth keeping, and under which name."""

    start: int
    stop: int
    record: ChunkRecord


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence lives from its prefill's Admit until its lease and its decode are both over.

    `token_ids` are the known prompt (up to the first pending segment) and then the generated
    tokens; the KV of the first `num_computed_tokens` is in the row's pages. With a `fusion` the
    prompt is put together from reused KV, and only then counted as computed; an `attention` log
    notes what tokens look at while they are computed. The KV of the first `num_exact_tokens_max`
    is what full attention gives; None: all of it. `rank` is by the engine's `CallOrder`.
    `deadline_s` is by the lane's clock.
    `transfer` is the task that waits to hand its KV to another lane. `awaits_rider`: nothing is
    computed before the task that continues it has come, `awaits_grammar`: nor before its decode's
    grammar is ready. `unprimed` are the corpus's
    ids of its chunks that were to have primed KV and had none. Of the chunks that were read ahead
    of it, by the loads of `load_id`, it has used `loads_used`, and `loads_wasted` not.
    """

    id: int
    arrival: int
    rank: float
    priority: Priority
    salt: str
    segments: list[Segment]
    row: Row
    chain: PageChain
    may_reuse: bool = True
    reuse: KvReuse = FULL_ATTENTION
    fusion: Fusion | None = None
    fused: FusedKv | None = None
    attention: AttentionLog | None = None
    captures: tuple[Capture, ...] = ()
    unprimed: tuple[int, ...] = ()
    load_id: int | None = None
    loads_used: int = 0
    loads_wasted: int = 0
    deadline_s: float = math.inf
    num_exact_tokens_max: int | None = None
    token_ids: list[int] = field(default_factory=list)
    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    num_reused_tokens: int = 0
    num_published_pages: int = 0
    has_pending: bool = False
    prefill_open: bool = True
    released: bool = False
    decode: Decode | None = None
    transfer: int | None = None
    primes: Primed | None = None
    asking: Asking | None = None
    is_speculative: bool = False
    awaits_rider: bool = False
    awaits_grammar: bool = False
    preemptions: int = 0

    @property
    def is_background(self) -> bool:
        """Whether it runs only while nothing else does."""
        return self.primes is not None or self.asking is not None or self.is_speculative

    @property
    def order(self) -> tuple[bool, int, float, int]:
        """Who is served first: what runs in the background last, then by class, then by rank."""
        return (self.is_background, self.priority.value, self.rank, self.arrival)

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens whose KV is still to be computed."""
        if self.fusing is not None:
            return self.fusing.num_remaining_tokens
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def fusing(self) -> Fusion | None:
        """The fusion that the prompt is going through; None before and after."""
        if self.fusion is None or self.fusion.stage is Stage.DONE:
            return None
        return self.fusion

    @property
    def wants_seat(self) -> bool:
        """Whether someone waits for tokens that are still to be computed."""
        is_wanted = self.prefill_open or self.decode is not None
        is_held_back = self.awaits_rider or self.awaits_grammar
        return self.num_remaining_tokens > 0 and is_wanted and not is_held_back

    @property
    def is_decoding(self) -> bool:
        """Whether one more token through the model gives the next one of the decode."""
        is_ready = self.decode is not None and not self.has_pending and self.fusing is None
        return is_ready and self.num_remaining_tokens == 1

    def known_prompt(self) -> list[int]:
        """Return the tokens of all segments before the first pending one."""
        known: list[int] = []
        for segment in self.segments:
            if segment.token_ids is None:
                break
            known.extend(segment.token_ids)
        return known
