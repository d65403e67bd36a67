"""What an engine is asked to do: one frozen payload for each kind of primitive."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InternalError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse, PrimedWith
from heddle.core.prompts.chat_turns import ChatTurn
from heddle.core.prompts.constraint import Constraint
from heddle.core.search_scope import EVERYBODYS, SearchScope


class SegmentRole(Enum):
    """What a piece of a prompt is; chunks may have a KV of their own.

    (docs/design/kv-journey.md)
    """

    TEXT = "text"
    SYSTEM = "system"  # a system text, where the prompt is sent as text
    TURN = "turn"  # of a conversation, where it is sent as text
    BARE = "bare"  # a text that wants no chat around it, where it is sent as text
    SLOT = "slot"
    CHUNK = "chunk"


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of a prompt; `token_ids is None` means pending: its slot is not written yet.

    `is_public`: a chunk of a document without a tenant, so every tenant may use the chunk's primed
    KV; only that of its own `collection` is used for it. `text` is the piece as text, for models
    that other servers run: those take no token ids. They get a conversation as turns, each the
    `turn` of a segment.
    """

    token_ids: tuple[int, ...] | None
    role: SegmentRole = SegmentRole.TEXT
    chunk_id: int | None = None
    is_public: bool = False
    collection: str = ""
    text: str = ""
    turn: ChatTurn | None = None

    @property
    def is_pending(self) -> bool:
        """Whether an Amend has to fill this segment before anything after it can be prefilled.

        No prompt has such a segment yet: they are for the pass `split_prefill` (Teola §4.2).
        """
        return self.token_ids is None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. temperature 0 is greedy; equal seeds give equal tokens.

    With a `constraint` only those are that its text may have.
    """

    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Where a decode ends for now, to go on from a prompt that shows more.

    After `after` tokens, or before a token to which the model gives a probability under `below`
    (softmax of the logits, before any sampling parameter); None = not for that reason. A
    decode's first token is always taken, so every one gets further. (FLARE, Jiang et al. 2023)
    """

    after: int | None = None
    below: float | None = None


NO_PAUSE = Pause()


class TextRole(Enum):
    """What a text is to an encoder: some put other words before a query than before a passage."""

    PLAIN = "plain"
    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class EmbedPayload:
    """Embed texts; answered by Vectors [len(texts), d].

    `in_windows` says whether texts longer than the model takes are read in windows of that length
    or cut to it; None = as the lane does. `may_keep`: the lane may keep the vectors for equal texts
    of this tenant.
    """

    texts: tuple[str, ...]
    role: TextRole = TextRole.PLAIN
    in_windows: bool | None = None
    may_keep: bool = True

    @property
    def rows(self) -> int:
        """Independent requests in this payload, Teola's request count."""
        return len(self.texts)

    def part(self, start: int, stop: int) -> "EmbedPayload":
        """Return rows [start, stop) as a payload of their own."""
        return replace(self, texts=self.texts[start:stop])


class ReadingText(NamedTuple):
    """A passage as a reading model sees it; an empty `title` is left out."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class ExtractPayload:
    """Quote the answer to a question from passages; answered by Extracted.

    At most `quotes_max` quotes are wanted, the best first.
    """

    question: str
    passages: tuple[ReadingText, ...]
    quotes_max: int = 3

    @property
    def rows(self) -> int:
        """Passages to read."""
        return len(self.passages)


@dataclass(frozen=True, slots=True)
class RerankPayload:
    """Score how well each passage answers a question; answered by Reranked."""

    question: str
    passages: tuple[ReadingText, ...]

    @property
    def rows(self) -> int:
        """Passages to score."""
        return len(self.passages)


@dataclass(frozen=True, slots=True, eq=False)
class SearchPayload:
    """Search the index for each row; answered by Hits.

    Shapes: queries [n, d] float32, C-contiguous, normalised.
    `nprobe` says how many clusters an IVF index scans, `topm` how many candidates a graph keeps;
    None takes the index's default. Only what is in `scope` is found: `topk` of it, or all there is.
    With `words`, the text of each row, its best passages by words (BM25) are found besides.
    `while_decoding`: a generation waits for the hits between two of its tokens.
    """

    queries: NDArray[np.float32]
    topk: int
    nprobe: int | None = None
    topm: int | None = None
    scope: SearchScope = EVERYBODYS
    words: tuple[str, ...] | None = None
    while_decoding: bool = False

    @property
    def rows(self) -> int:
        """Independent queries in this payload."""
        return len(self.queries)

    def part(self, start: int, stop: int) -> "SearchPayload":
        """Return rows [start, stop) as a payload of their own."""
        words = None if self.words is None else self.words[start:stop]
        return replace(self, queries=self.queries[start:stop], words=words)


@dataclass(frozen=True, slots=True, eq=False)
class IngestPayload:
    """Store the vectors of chunks that the corpus already holds; answered by Ingested.

    Shapes: chunk_ids [n] int64; vectors [n, d] float32, normalised.
    """

    chunk_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """Vectors to store."""
        return int(self.chunk_ids.shape[0])

    def part(self, start: int, stop: int) -> "IngestPayload":
        """Return rows [start, stop) as a payload of their own."""
        return IngestPayload(self.chunk_ids[start:stop], self.vectors[start:stop])


@dataclass(frozen=True, slots=True)
class PrefillPayload:
    """Compute the KV of a prompt; answered by Prefilled, whose handle a decode continues.

    `cache_salt` separates tenants in the prefix index and the chunk KV store; the server sets it,
    never the client. `reuse` says how chunks may use KV computed elsewhere, which is approximate.
    `is_speculative`: a guess, for which no request waits. It runs only while no query could, has
    no lease, and leaves the computed KV in the prefix index. `has_rider`: the task that continues
    it is sent right behind it, and nothing is computed before that is there. A prompt that ended
    before its decode came would compute its last token, or its last page, once more. `load_id`
    names the `LoadKv` that was sent for it, if one was.
    """

    segments: tuple[Segment, ...]
    cache_salt: str = ""
    reuse: KvReuse = FULL_ATTENTION
    is_speculative: bool = False
    has_rider: bool = False
    rows: int = 1
    load_id: int | None = None

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The known tokens of all segments, in order."""
        return tuple(token for segment in self.segments for token in segment.token_ids or ())

    @property
    def text(self) -> str:
        """The prompt as text, without its system text; empty where it holds token ids only."""
        return "".join(s.text for s in self.segments if s.role is not SegmentRole.SYSTEM)

    @property
    def system(self) -> str:
        """The system text of a prompt that is sent as text."""
        return "".join(s.text for s in self.segments if s.role is SegmentRole.SYSTEM)

    @property
    def turns(self) -> tuple[ChatTurn, ...]:
        """The conversation that is sent as text; () where the prompt is none."""
        return tuple(segment.turn for segment in self.segments if segment.turn is not None)

    @property
    def is_bare(self) -> bool:
        """Whether the text wants no chat around it."""
        return any(segment.role is SegmentRole.BARE for segment in self.segments)

    def ridden(self, load_id: int | None, written: tuple[int, ...]) -> "PrefillPayload":
        """Return it as it is sent with its decode, which goes on behind what is `written`.

        `dataclasses.replace` takes longer.
        """
        return PrefillPayload(
            (*self.segments, Segment(written)) if written else self.segments,
            self.cache_salt,
            self.reuse,
            self.is_speculative,
            True,
            self.rows,
            load_id,
        )


@dataclass(frozen=True, slots=True)
class PrimePayload:
    """Compute the KV of the last segment, a chunk, and store it on disk; answered by Primed.

    The segments before it are the prompt's prefix and the chunks it is to see, the most important
    last: their stored raw KV is reused. Without such chunks the KV stored is raw itself, else
    primed. `cache_salt` is the tenant's, as for a prefill. `primed_with` says which chunks they
    are, and is part of what the KV is found by. (FusionRAG §3.1, ADR 20)
    """

    segments: tuple[Segment, ...]
    cache_salt: str = ""
    rows: int = 1
    primed_with: PrimedWith = PrimedWith.PRECEDING


@dataclass(frozen=True, slots=True)
class AskPayload:
    """Run a prompt's question before its chunks are known; answered by Asked.

    `token_ids` are all that will follow the prompt's last chunk. The lane keeps the question's
    queries for prompts of this tenant that end so. It takes no credit: a lane may run it while no
    request waits, or refuse. (FusionRAG §3.2)
    """

    token_ids: tuple[int, ...]
    cache_salt: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SequenceKv:
    """A prompt on its way from the lane that prefilled it to the one that decodes it.

    `block` holds the KV of its first `tokens` tokens as the worker laid it out; only a worker of
    the same model, by its `fingerprint`, reads it. Copying it out took `seconds` [s]. `salt` is
    the tenant's; without `may_reuse` no other request may read the KV computed from it.
    """

    segments: tuple[Segment, ...]
    salt: str
    may_reuse: bool
    tokens: int
    fingerprint: str
    block: tuple[NDArray[np.generic], ...]
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        """What is carried over [bytes]."""
        return sum(array.nbytes for array in self.block)


@dataclass(frozen=True, slots=True)
class TransferPayload:
    """Hand a prefill's KV out, for another lane; answered by SequenceKv, which ends the lease.

    Like a decode it may be sent before the prefill is done. (Trinity §3.1)
    """

    prefill_task: int
    rows: int = 1


@dataclass(frozen=True, slots=True)
class DecodePayload:
    """Continue a prefill; answered by Generated, with token Progress before.

    `prefill_task` names the prefill, on the same lane, that this decode continues. It may be
    sent before the prefill is done: the lane starts decoding the moment the prompt is in. With
    a `prompt` another lane has prefilled it, and its pages are this decode's alone.

    The last `continues` tokens of the prompt are what earlier decodes of the same answer wrote:
    text, stop strings, draws and max_tokens go on from there, and Generated holds the whole.
    The last `resumes` of these were written by a failed try of this decode: its pause counts them.

    `draft` is a likely text of this decode, token by token, the part that `continues` included. The
    lane may check several of these tokens in one step; the text doesn't depend on them.
    """

    prefill_task: int
    sampling: Sampling
    pause: Pause = NO_PAUSE
    continues: int = 0
    resumes: int = 0
    prompt: SequenceKv | None = None
    draft: tuple[int, ...] = ()
    rows: int = 1


@dataclass(frozen=True, slots=True)
class ToolPayload:
    """Call a function of this process; answered by ToolResult. Never crosses a process.

    After `timeout_s` it fails [s]. With a `batch_max` above 1 the function takes a list of the
    arguments of at most that many calls, and returns a result, or an exception, for each.
    """

    function: Callable[..., object]
    arguments: tuple[object, ...]
    timeout_s: float = math.inf
    batch_max: int = 1
    rows: int = 1


Payload = (
    EmbedPayload
    | ExtractPayload
    | RerankPayload
    | SearchPayload
    | IngestPayload
    | PrefillPayload
    | PrimePayload
    | AskPayload
    | TransferPayload
    | DecodePayload
    | ToolPayload
)


def begins_with(payload: Payload, first: Payload) -> bool:
    """Whether the first rows of a payload are those of another, of the same kind."""
    if isinstance(payload, EmbedPayload) and isinstance(first, EmbedPayload):
        return payload.texts[: first.rows] == first.texts
    if isinstance(payload, SearchPayload) and isinstance(first, SearchPayload):
        return np.array_equal(payload.queries[: first.rows], first.queries)
    if isinstance(payload, IngestPayload) and isinstance(first, IngestPayload):
        return np.array_equal(payload.vectors[: first.rows], first.vectors)
    raise InternalError(f"{type(payload).__name__} doesn't go on from {type(first).__name__}")


def split_rows(payload: Payload, start: int, stop: int) -> Payload:
    """Return rows [start, stop) of a payload that embeds, searches or stores."""
    if (start, stop) == (0, payload.rows):
        return payload
    if isinstance(payload, EmbedPayload | SearchPayload | IngestPayload):
        return payload.part(start, stop)
    raise InternalError(f"{type(payload).__name__} can't be split into rows {start}:{stop}")
