"""The nodes of a workflow: frozen values, one for each component. (HedraRAG §4.1)"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from heddle.core.kv_reuse import PrimedWith
from heddle.core.payloads import Pause, Sampling
from heddle.core.search_scope import Where
from heddle.graph.primitive import SoFar
from heddle.workflow.template import DOCUMENTS, EMPTY, QUESTION, Slot, Template

NodeId = int | str
OWN_SLOTS: Final = frozenset(part.value for part in SoFar)


class Parse(Enum):
    """How a generation's text becomes its slot's value."""

    AUTO = "auto"  # LINES for a slot that a loop consumes, else TEXT
    TEXT = "text"
    LINES = "lines"  # a list: JSON strings or plain text, one a line


class PromptRole(Enum):
    """What a prompt is for, where a model may have one of its own for it."""

    ANSWER = "answer"
    HYPOTHESIS = "hypothesis"
    SUBQUESTIONS = "subquestions"
    SUMMARY = "summary"
    ANSWER_FROM_SUMMARY = "answer_from_summary"


ROLE_SLOTS: Final[Mapping[PromptRole, frozenset[str]]] = {
    PromptRole.ANSWER: frozenset({"docs", "query"}),
    PromptRole.HYPOTHESIS: frozenset({"query"}),
    PromptRole.SUBQUESTIONS: frozenset({"query"}),
    PromptRole.SUMMARY: frozenset({"docs", "query"}),
    PromptRole.ANSWER_FROM_SUMMARY: frozenset({"summary", "query"}),
}


@dataclass(frozen=True, slots=True)
class DecodeRetrieval:
    """When a generation pauses to retrieve, its search's query, and the limits of both.

    In `query`, {answer} is the text so far and {sentence} the sentence that is being written.
    (FLARE, Jiang et al. 2023; Trinity §3.3)
    """

    pause: Pause
    query: Template
    retrievals_max: int
    added_max: int


@dataclass(frozen=True, slots=True)
class GenerationNode:
    """LLM generation from a prompt into `output`, with retrievals on the way if it has any.

    A model with a prompt of its own for the `role` gets that one. `system` is the system text. With
    `fence`, a line that no passage can write stands behind the passages. Where the slot that it
    `needs` is empty, `if_empty` is its text, and no model is asked.
    """

    id: NodeId
    prompt: Template
    output: str
    sampling: Sampling
    parse: Parse = Parse.AUTO
    decode_retrieval: DecodeRetrieval | None = None
    system: str = ""
    role: PromptRole | None = None
    fence: bool = True
    needs: Slot | None = None
    if_empty: Template = EMPTY

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots its prompt shows, the needed one, and those of its own retrievals' queries."""
        others = (
            self.if_empty.slots if self.needs is None else (self.needs.name, *self.if_empty.slots)
        )
        if self.decode_retrieval is not None:
            queried = self.decode_retrieval.query.slots
            others = (*others, *(slot for slot in queried if slot not in OWN_SLOTS))
        return tuple(dict.fromkeys((*self.prompt.slots, *others)))


@dataclass(frozen=True, slots=True)
class RetrievalNode:
    """Vector search for `query` into `output`; with `collect`, queries and turns add up.

    A request on a corpus of fewer than `topk` chunks is refused, unless `allow_fewer`. Only
    documents that fit `where` are found; `hybrid` searches by words as well. `nprobe` and `topm`
    say how far a search goes in an index of clusters or in a graph. With `rerank`, a model reads
    what was found, and the `rerank` best passages are kept; `may_rerank` leaves that to the server.
    It reads them with `rerank_by`, None = with the query. `within` names the slot of an indexing of
    the request's own documents, which are searched instead of the corpus.
    """

    id: NodeId
    query: Template
    output: str
    topk: int
    nprobe: int | None = None
    collect: bool = False
    allow_fewer: bool = False
    where: Where = ()
    hybrid: bool = False
    topm: int | None = None
    rerank: int | None = None
    may_rerank: bool = False
    rerank_by: Template | None = None
    within: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots that its query is made of, that it is ranked by, and that it searches in."""
        others = () if self.rerank_by is None else self.rerank_by.slots
        where = () if self.within is None else (self.within,)
        return tuple(dict.fromkeys((*self.query.slots, *others, *where)))


@dataclass(frozen=True, slots=True)
class ExtractionNode:
    """Quote the answer to `question` from the passages of slot `passages` into `output`.

    At most `quotes_max` quotes are given, from different passages.
    """

    id: NodeId
    question: Template
    passages: str
    output: str
    quotes_max: int

    @property
    def reads(self) -> tuple[str, ...]:
        """The passages' slot, and those that the question is made of."""
        return tuple(dict.fromkeys((*self.question.slots, self.passages)))


@dataclass(frozen=True, slots=True)
class RankingNode:
    """Have a model read the passages of slot `passages` with `query`; the best come first."""

    id: NodeId
    query: Template
    passages: str
    output: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The passages' slot, and those that the query is made of."""
        return tuple(dict.fromkeys((*self.query.slots, self.passages)))


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Texts, lists and passages of some slots as one list into `output`, without empty ones.

    `before` stands before each text.
    """

    id: NodeId
    slots: tuple[str, ...]
    output: str
    before: Template = EMPTY

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots joined, in order, and those of the text before each."""
        return tuple(dict.fromkeys((*self.slots, *self.before.slots)))


@dataclass(frozen=True, slots=True)
class ToolNode:
    """A Python function of some slots into `output`.

    It fails after `timeout_s` [s]. With a `batch_max` above 1 it takes a list of calls at once.
    """

    id: NodeId
    function: Callable[..., object]
    arguments: tuple[str, ...]
    output: str
    timeout_s: float = math.inf
    batch_max: int = 1

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots handed to the function, in order."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class IndexingNode:
    """Embed the texts of chunks and store their vectors. (Teola's indexing component)"""

    id: NodeId
    texts: str
    chunk_ids: str
    output: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots with the texts and the chunk ids."""
        return (self.texts, self.chunk_ids)


@dataclass(frozen=True, slots=True)
class DocumentsNode:
    """Embed the chunks of the documents that come with a request, for it alone. (ADR 34)

    Its value are their vectors.
    """

    id: NodeId
    output: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The input with the documents' chunks."""
        return (DOCUMENTS,)


@dataclass(frozen=True, slots=True)
class PrimingNode:
    """Compute the KV of a chunk behind a prompt's prefix and its neighbours, and store it.

    `passage` is the chunk's slot, `before` that of what precedes it in its document, `vectors` that
    of its own vector. What precedes it, unless it is primed with the nearest alone, and then the
    nearest of `topk` chunks, itself and what others own included, become its neighbours, up to
    `neighbours_max`; without any (0) the KV is raw. (FusionRAG §3.1, ADR 20)
    """

    id: NodeId
    prefix: str
    passage: str
    before: str
    vectors: str
    neighbours_max: int
    topk: int
    output: str
    primed_with: PrimedWith = PrimedWith.PRECEDING

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots with the chunk and, for its neighbours, what precedes it and its vector."""
        if not self.neighbours_max:
            return (self.passage,)
        before = (self.before,) if self.primed_with is PrimedWith.PRECEDING else ()
        return (self.passage, *before, self.vectors)


@dataclass(frozen=True, slots=True)
class AnswerCacheNode:
    """Look for an answer of the whole workflow before it runs, and keep the one that it gives.

    With a `similarity`, the least cosine of two questions, an answer to a similar question may be
    taken; None = only one to a question of equal text. `unfit` says why no answer is kept; "" =
    they are. Its value is whether an answer was found. (ADR 44)
    """

    id: NodeId
    output: str
    similarity: float | None = None
    unfit: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The question."""
        return (QUESTION,)


Node = (
    GenerationNode
    | RetrievalNode
    | ExtractionNode
    | RankingNode
    | JoinNode
    | ToolNode
    | IndexingNode
    | DocumentsNode
    | PrimingNode
    | AnswerCacheNode
)
