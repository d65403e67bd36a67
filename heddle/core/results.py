"""What an engine answers: one frozen result for each kind of payload."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.core.counts import SearchCounts
from heddle.core.kv_reuse import PrimedWith, QuestionPass
from heddle.core.payloads import SequenceKv


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Embeddings. Shapes: values [n, d] float32, L2-normalised rows, in the payload's order.

    Of the texts longer than the model takes, `truncated` were cut to its length, and `windowed`
    embedded in windows of it.
    """

    values: NDArray[np.float32]
    tokens: int = 0
    truncated: int = 0
    windowed: int = 0

    @property
    def rows(self) -> int:
        """Texts that were embedded."""
        return len(self.values)


class Quote(NamedTuple):
    """An answer as it stands in a passage: characters [start, end) of passage number `passage`.

    `score` compares the quote with "no answer", which scores 0; a higher score is more certain.
    """

    passage: int
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Extracted:
    """The best quotes of a payload's passages, the best first.

    `scores` has one entry for each passage: the score of its best quote, which also ranks it.
    A quote that scores less than `threshold` is no answer: the model's training has fixed it.
    `tokens` were read in `windows` rows, the question counted in each.
    """

    quotes: tuple[Quote, ...]
    scores: tuple[float, ...]
    tokens: int = 0
    windows: int = 0
    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class Reranked:
    """One score for each passage, in the payload's order; a higher score answers better.

    `truncated` counts the passages that the model could not read to their end.
    """

    scores: tuple[float, ...]
    tokens: int = 0
    truncated: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RankedHits:
    """Chunks in an order that their distances don't tell.

    Shapes: labels [n, k] int64 chunk ids, the best first, -1 = none; distances [n, k] float32.
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RecallEstimate:
    """The measured recall of searches: the share of the exact hits that they find.

    Args:
        recall: mean over the searches that were run again exactly.
        at_least: its lower bound, with 95 % confidence.
        checks: the searches that it is the mean of.
    """

    recall: float
    at_least: float
    checks: int


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Search results.

    Shapes: labels [n, k] int64 chunk ids, -1 = none; distances [n, k] float32 squared L2,
    ascending. `counts` says what the search took. `notes` says where it ran degraded. `by_words`
    is there where it was asked for. `recall` is what the index's searches find by now, None = not
    known yet. `searched_by` names an index that is not Heddle's own, and how far a search went;
    empty = it is Heddle's.
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float32]
    counts: SearchCounts = field(default_factory=SearchCounts)
    revision: int = 0
    notes: tuple[str, ...] = ()
    by_words: RankedHits | None = None
    recall: RecallEstimate | None = None
    searched_by: str = ""

    @property
    def rows(self) -> int:
        """Queries that were searched for."""
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Ingested:
    """How many vectors were stored, and the corpus revision that holds them."""

    count: int
    revision: int


@dataclass(frozen=True, slots=True)
class Primed:
    """A chunk's KV lies on disk; `is_new` False: it was there already, and nothing was computed.

    `neighbours` counts the chunks it has seen, of those offered what fits into the context.
    """

    tokens: int
    neighbours: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question looks for is known to the lane; `problem` says why not, where it isn't."""

    problem: str = ""


class KvHandle(NamedTuple):
    """A lease on KV pages inside a lane, void once the lane's epoch has passed."""

    lane: str
    epoch: int
    id: int


@dataclass(frozen=True, slots=True)
class FusedKv:
    """What a prompt took from the store of chunk KV.

    Args:
        policy: which tokens of the chunks were recomputed.
        ratio: share of tokens to recompute, as given or as chosen from the deadline.
        chunks: counts of its chunks by kind of hit, misses included.
        tokens_recomputed: reused tokens that were computed all the same, as the policy selected.
        tokens_shared: reused tokens that were read from pages which other prompts share; the
            others were copied.
        tokens_from_device: tokens of reused chunks that were in the device's pool already.
        tokens_from_disk: tokens of reused chunks that were loaded from disk; those in neither
            count came from host memory.
        tokens_surveyed: tokens that went through the model, or its first layers, only to select
            which ones to recompute.
        question: what the question saw in the pass that selects; None = it did not select.
        was_ahead: whether that pass had run before the prompt was known.
        chunks_primed: reused chunks with primed KV.
        primed_with: which chunks that is to be primed with; None = raw KV was asked for.
        loads_used: reused chunks that were read from disk ahead of the prompt, for it.
        loads_wasted: chunks that were read ahead of it and that it did not use.
        unprimed: ids of chunks that should have had primed KV, and had none.
        stored_error: the largest relative L2 error that storing cost one of the chunks.
        notes: where reuse ran degraded, in words.
        computed_whole: why nothing was reused but the prefix, where reuse was not predicted to pay.
        loading_s: time until all chunks were in memory [s].
        surveying_s: time of the steps that selected tokens, other work in them included [s]; a
            pass ahead of the prompt is not in it.
        computing_s: time of the steps that computed, other work in them included [s].
    """

    policy: str
    ratio: float
    chunks: Mapping[str, int]
    tokens_recomputed: int = 0
    tokens_shared: int = 0
    tokens_from_device: int = 0
    tokens_from_disk: int = 0
    tokens_surveyed: int = 0
    question: QuestionPass | None = None
    was_ahead: bool = False
    chunks_primed: int = 0
    primed_with: PrimedWith | None = None
    loads_used: int = 0
    loads_wasted: int = 0
    unprimed: tuple[int, ...] = ()
    stored_error: float = 0.0
    notes: tuple[str, ...] = ()
    computed_whole: str = ""
    loading_s: float = 0.0
    surveying_s: float = 0.0
    computing_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A prompt is in: tokens in all, of these reused (exact prefix cache, stored chunks)."""

    handle: KvHandle
    tokens: int
    tokens_reused: int
    preemptions: int = 0
    fused: FusedKv | None = None

    @property
    def tokens_computed(self) -> int:
        """Tokens whose KV was computed for it."""
        return self.tokens - self.tokens_reused

    @property
    def tokens_surveyed(self) -> int:
        """Tokens that went through the model, or its first layers, to select what to compute."""
        return 0 if self.fused is None else self.fused.tokens_surveyed


class FinishReason(Enum):
    """Why a generation ended."""

    STOP = "stop"  # end-of-sequence token or stop string
    LENGTH = "length"  # max_tokens or the model's context
    INTERVAL = "interval"  # a pause after `Pause.after` tokens
    LOW_CONFIDENCE = "low_confidence"  # a pause before a token that the model isn't sure of

    @property
    def is_pause(self) -> bool:
        """Whether the generation may go on from here."""
        return self in (FinishReason.INTERVAL, FinishReason.LOW_CONFIDENCE)


@dataclass(frozen=True, slots=True)
class KvTransfer:
    """How a prompt's KV came from the lane that prefilled it to the one that decoded it.

    Copying it out there and in here took `seconds`, without the way between the processes [s].
    `problem` says why tokens had to be computed anew; empty where none had.
    """

    nbytes: int
    seconds: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """What is known of a generation that another server ran.

    Args:
        server: that server's address.
        model: the model's name there.
        prompt_tokens: of the prompt, as that server counted them; 0 = it reported no count.
        prompt_tokens_reused: of these, from that server's prefix cache.
        tokens: tokens of the answer; the pieces of text that arrived where it reported no count.
        tries: how often the generation was sent before it was answered.
        notes: where that server did not do as asked, in words.
    """

    server: str
    model: str
    prompt_tokens: int = 0
    prompt_tokens_reused: int = 0
    tokens: int = 0
    tries: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generated:
    """A finished generation; `text` excludes the stop string and special tokens.

    Where it only pauses, `text` lacks what later tokens may still change. `tokens_left` is how
    many more tokens its sequence could have had in the lane's context. `transfer` is there where
    another lane had prefilled its prompt, `remote` where another server wrote the text. Of its
    draft, `drafted` tokens were checked in steps for earlier tokens, and `accepted` of these were
    right: each has saved a step.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    preemptions: int = 0
    tokens_left: int = 0
    transfer: KvTransfer | None = None
    remote: RemoteRun | None = None
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the called function returned."""

    value: object


Result = (
    Vectors
    | Extracted
    | Reranked
    | Hits
    | Ingested
    | Primed
    | Asked
    | Prefilled
    | SequenceKv
    | Generated
    | ToolResult
)
