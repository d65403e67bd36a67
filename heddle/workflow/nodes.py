"""The nodes of a workflow: frozen values, one for each component. (HedraRAG §4.1)"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from heddle.core.payloads import Sampling
from heddle.workflow.template import Template

NodeId = int | str


class Parse(Enum):
    """How a generation's text becomes its slot's value."""

    AUTO = "auto"  # LINES for a slot that a loop consumes, else TEXT
    TEXT = "text"
    LINES = "lines"  # a list: JSON strings or plain text, one a line


@dataclass(frozen=True, slots=True)
class GenerationNode:
    """LLM generation from a prompt into `output`."""

    id: NodeId
    prompt: Template
    output: str
    sampling: Sampling
    parse: Parse = Parse.AUTO

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots its prompt shows."""
        return self.prompt.slots


@dataclass(frozen=True, slots=True)
class RetrievalNode:
    """Vector search for `query` into `output`; with `collect`, rounds of a loop add up.

    A request on a corpus of fewer than `topk` chunks is refused, unless `allow_fewer`.
    """

    id: NodeId
    query: Template
    output: str
    topk: int
    nprobe: int | None = None
    collect: bool = False
    allow_fewer: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots its query is made of."""
        return self.query.slots


@dataclass(frozen=True, slots=True)
class ToolNode:
    """A Python function of some slots into `output`."""

    id: NodeId
    function: Callable[..., object]
    arguments: tuple[str, ...]
    output: str

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


Node = GenerationNode | RetrievalNode | ToolNode | IndexingNode
