"""One prompt and what is generated after it: tokens, pages and who waits for them."""

from dataclasses import dataclass, field

import numpy as np

from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.payloads import Sampling, Segment
from heddle.core.results import FusedKv
from heddle.core.tasks import Priority
from heddle.engines.llm.fusion.fusion import Fusion
from heddle.engines.llm.step_batch import Draw
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.prefix_index import PageChain
from heddle.kv.rows import Row


@dataclass(slots=True, eq=False)
class Decode:
    """A decode task that continues a sequence.

    Mutates: the engine appends to `output_ids` and moves `reported` along.
    """

    task_id: int
    sampling: Sampling
    report_every: int
    output_ids: list[int] = field(default_factory=list)
    reported: int = 0

    def next_draw(self) -> Draw:
        """Return how the next token is chosen; depends on the seed and its number only."""
        sampling = self.sampling
        if sampling.temperature <= 0.0:
            return Draw()
        bits = np.random.Philox(key=sampling.seed, counter=[0, 0, 0, len(self.output_ids)])
        uniform = float(np.random.Generator(bits).random())
        return Draw(sampling.temperature, sampling.top_p, sampling.top_k, uniform)


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
    tokens; the KV of the first `num_computed_tokens` is in the row's pages. While `fusion` is
    there the prompt is put together from reused KV, and only then counted as computed. The KV
    of the first `num_exact_tokens_max` is what full attention gives; None: all of it.
    """

    id: int
    arrival: int
    priority: Priority
    salt: str
    segments: list[Segment]
    row: Row
    chain: PageChain
    may_reuse: bool = True
    reuse: KvReuse = FULL_ATTENTION
    fusion: Fusion | None = None
    fused: FusedKv | None = None
    captures: tuple[Capture, ...] = ()
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
    preemptions: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """Who is served first: by class, then by arrival."""
        return (self.priority.value, self.arrival)

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens whose KV is still to be computed."""
        if self.fusion is not None:
            return self.fusion.num_remaining_tokens
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def wants_seat(self) -> bool:
        """Whether someone waits for tokens that are still to be computed."""
        return self.num_remaining_tokens > 0 and (self.prefill_open or self.decode is not None)

    @property
    def is_decoding(self) -> bool:
        """Whether one more token through the model gives the next one of the decode."""
        is_ready = self.decode is not None and not self.has_pending and self.fusion is None
        return is_ready and self.num_remaining_tokens == 1

    def known_prompt(self) -> list[int]:
        """Return the tokens of all segments before the first pending one."""
        known: list[int] = []
        for segment in self.segments:
            if segment.token_ids is None:
                break
            known.extend(segment.token_ids)
        return known
