"""What a caller hears of a request while it runs: one typed stream."""

from dataclasses import dataclass

from heddle.core.errors import HeddleError
from heddle.core.passages import Passage
from heddle.core.quotations import Quotation
from heddle.core.results import FinishReason
from heddle.runtime.receipt import Receipt


@dataclass(frozen=True, slots=True)
class NodeStarted:
    """A node's first primitive was sent to an engine. `turn` counts from 0 in a loop."""

    node: str
    turn: int


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """New text of a generation. Deltas a reader hasn't taken yet are merged into one."""

    node: str
    text: str


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A retrieval's passages, nearest first; where they are reranked, again in that order."""

    node: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class NodeFinished:
    """A node's value is written."""

    node: str
    turn: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A request's result, and the last event of a request that succeeded.

    `text` is what the last generation before END wrote, or the best quote of the last extraction;
    `passages` are those its prompt showed, or the other prompts' where it showed none;
    `slots` holds every slot's newest value; `receipt` says what was done for it. `quotes` are the
    answers that an extraction has found, and `nearest` the nearest places where it has found none.
    `finish_reason` says why the generation ended that wrote the text; None = no model wrote it.

    Example:
        answer = server.app("quote").invoke("When was the Harbour Library opened?", topk=3)
        print(answer.text, "of", len(answer.passages), "passages")  # 1901 of 3 passages
        quote = answer.quotes[0]
        print(quote.passage.title, "-", quote.sentence)
        # library - The Harbour Library was opened by Tom Wells in 1901.
    """

    text: str
    passages: tuple[Passage, ...]
    slots: dict[str, object]
    receipt: Receipt
    quotes: tuple[Quotation, ...] = ()
    nearest: tuple[Quotation, ...] = ()
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The last event of a request that failed, was cancelled or ran out of time."""

    error: HeddleError


RequestEvent = NodeStarted | TokenDelta | Retrieved | NodeFinished | Answer | RequestFailed
