"""What adapters ask an engine for, and what comes back: in no framework's types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from heddle.app.request_options import RoleWord
from heddle.core.passages import Passage
from heddle.core.tasks import Priority
from heddle.workflow.ragraph import DEFAULT_TOPK

NO_RECEIPT: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A conversation that the LLM is to go on with.

    Args:
        messages: in OpenAI's form; their contents are texts or lists of text parts.
        max_tokens: the most tokens of the answer; None = as the server has it, as the next four.
        temperature: 0 = the likeliest token each time.
        top_p: draw from the likeliest tokens that together have this probability.
        seed: equal seeds draw equal tokens.
        stop: texts before which the answer ends.
        tools: functions in OpenAI's form that the LLM may call.
        tool_choice: "none", "auto", "required" or a function; None = "auto" where there are tools.
        response_format: OpenAI's field of that name.
        parallel_tool_calls: False = no more than one call.
        deadline_s: seconds until the answer is worthless; None = as the run or the server has it.
        priority: the service class.
    """

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    deadline_s: float | None = None
    priority: Priority = Priority.NORMAL

    @property
    def writing(self) -> dict[str, Any]:
        """What was asked of how the answer is written, as keywords of `Server.submit`."""
        asked = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": list(self.stop) or None,
        }
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A function that the LLM wants to have called; `arguments` is a JSON object as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A whole answer of the LLM; the last item of a stream.

    Args:
        text: its words; "" where it only calls tools.
        tool_calls: the calls that it wants.
        finish_reason: "stop", "length" or "tool_calls".
        prompt_tokens: tokens of the prompt.
        cached_tokens: of these, those that were in a prefix cache.
        completion_tokens: tokens that were written.
        model: the LLM's name.
        receipt: what was done for it (docs/reference/receipt.md), as JSON has it.
    """

    text: str
    tool_calls: tuple[ToolRequest, ...] = ()
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    model: str = ""
    receipt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchCall:
    """A search in the server's corpus; its fields are those of `Server.search`."""

    query: str
    topk: int = DEFAULT_TOPK
    hybrid: bool = False
    rerank: bool = False
    where: Mapping[str, object] | None = None
    deadline_s: float | None = None
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Found:
    """Passages, the best first, and what was done to find them."""

    passages: tuple[Passage, ...]
    receipt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RerankCall:
    """Texts to be read with a query by the model that ranks."""

    query: str
    texts: Sequence[str]
    deadline_s: float | None = None
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class RankedText:
    """The place of a text among those that were given, and its relevance from 0 to 1."""

    index: int
    relevance: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """All texts, the best first, and what was done for it."""

    texts: tuple[RankedText, ...]
    receipt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbedCall:
    """Texts to embed; `role` is the prompt of the model to put before them."""

    texts: Sequence[str]
    role: RoleWord = "plain"
    deadline_s: float | None = None
    priority: Priority | None = None


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector for each text, of length 1, and the tokens that were read."""

    vectors: list[list[float]]
    tokens: int = 0
