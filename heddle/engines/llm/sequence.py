"""One prompt and what is generated after it: tokens, pages and who waits for them."""

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.payloads import Segment
from heddle.core.results import FusedKv, Primed
from heddle.core.tasks import Priority
from heddle.engines.llm.decode import Decode
from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.fusion.attention_log import AttentionLog
from heddle.engines.llm.fusion.fusion import Fusion, Stage
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.prefix_index import PageChain
from heddle.kv.rows import Row


@dataclass(frozen=True, slots=True)
class Capture:
    """Positions [start, stop) of a prompt whose KV is worth keeping, and under which name."""

    start: int
    stop: int
    record: ChunkRecord


@dataclass(frozen=True, slots=True)
class Answering:
    """A request waits for the prompt, and continues it for as long as it holds the lease."""


@dataclass(frozen=True, slots=True)
class Guessing:
    """A request may come with this prompt: it is computed ahead, in the background, for no lease.

    A decode may continue it all the same.
    """


@dataclass(frozen=True, slots=True)
class Priming:
    """A chunk's KV is computed to be stored; `primed` is the answer once it lies on disk."""

    primed: Primed


# An `Asking` runs a question ahead of its prompt, and keeps what the question looks for.
Purpose: TypeAlias = Answering | Guessing | Priming | Asking
"""What a sequence is computed for. All but `Answering` run only while no query does."""


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
    Results have reported `preemptions_reported` of its `preemptions`.
    """

    id: int
    arrival: int
    rank: float
    priority: Priority
    salt: str
    segments: list[Segment]
    row: Row
    chain: PageChain
    purpose: Purpose = field(default_factory=Answering)
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
    awaits_rider: bool = False
    awaits_grammar: bool = False
    preemptions: int = 0
    preemptions_reported: int = 0

    def report_preemptions(self) -> int:
        """Return how often it has lost its pages since the last result that said so.

        Mutates: notes that they are reported.
        """
        since = self.preemptions - self.preemptions_reported
        self.preemptions_reported = self.preemptions
        return since

    @property
    def continued_by(self) -> int | None:
        """The task that continues it: its decode, or its transfer to another lane."""
        return self.transfer if self.decode is None else self.decode.task_id

    @property
    def is_background(self) -> bool:
        """Whether it runs only while nothing else does."""
        return not isinstance(self.purpose, Answering)

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
