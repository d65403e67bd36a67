"""The five workflows as lists of steps: what a framework's nodes do, with the server's prompts.

A program written by hand needs no such list (`hand_written`); frameworks and the stage barrier move
a request from step to step. The second turn of `irg` stands behind the first.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Self

from benchmarks.contenders.hand_written import Client, write
from heddle.core.passages import Passage
from heddle.runtime.values import unique_passages
from heddle.runtime.written_list import as_lines
from heddle.workflow.nodes import PromptRole
from heddle.workflow.presets import IRG_TURNS

TOPK: Final = 5
RECOMP_TOPK: Final = 6


@dataclass(frozen=True, slots=True)
class Notes:
    """The state of a request; `searches` are the texts that its next retrieval looks for."""

    client: Client
    query: str
    searches: tuple[str, ...]
    docs: tuple[Passage, ...] = ()
    summary: str = ""
    answer: str = ""

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: Haystack copies the outputs of components, and notes don't change."""
        return self


def notes_of(client: Client, query: str) -> Notes:
    """Return a request that has only its question, and would search for it."""
    return Notes(client, query, (query,))


class StepKind(Enum):
    """Which engines a step needs: the LLM, or those that embed and search."""

    WRITE = "write"
    RETRIEVE = "retrieve"


@dataclass(frozen=True, slots=True)
class Step:
    """One node; `run` returns the notes with its additions."""

    name: str
    kind: StepKind
    run: Callable[[Notes], Awaitable[Notes]]


async def imagine(notes: Notes) -> Notes:
    """Write a passage that could answer, to search with it."""
    text = await write(notes.client, PromptRole.HYPOTHESIS, query=notes.query)
    return replace(notes, searches=(f"{notes.query} {text}",))


async def decompose(notes: Notes) -> Notes:
    """Write sub-questions, to search for each."""
    text = await write(notes.client, PromptRole.SUBQUESTIONS, query=notes.query)
    lines = as_lines(text) or ("",)
    return replace(notes, searches=tuple(f"{notes.query} {line}" for line in lines))


async def retrieve(notes: Notes) -> Notes:
    """Search for one text."""
    return replace(notes, docs=await notes.client.retrieve(notes.searches[0], TOPK))


async def retrieve_six(notes: Notes) -> Notes:
    """Search for one text; what doesn't help is cut away later."""
    return replace(notes, docs=await notes.client.retrieve(notes.searches[0], RECOMP_TOPK))


async def retrieve_all(notes: Notes) -> Notes:
    """Search for several texts at once."""
    return gathered(notes, await notes.client.retrieve_all(notes.searches, TOPK))


def gathered(notes: Notes, found: Sequence[tuple[Passage, ...]]) -> Notes:
    """Return notes with what several searches have found, each passage once."""
    return replace(notes, docs=unique_passages(found))


async def retrieve_more(notes: Notes) -> Notes:
    """Search with the answer so far; what was found before stays."""
    found = await notes.client.retrieve(f"{notes.query} {notes.answer}", TOPK)
    return replace(notes, docs=unique_passages((notes.docs, found)))


async def answer(notes: Notes) -> Notes:
    """Answer from the passages."""
    text = await write(notes.client, PromptRole.ANSWER, query=notes.query, docs=notes.docs)
    return replace(notes, answer=text)


async def compress(notes: Notes) -> Notes:
    """Write down what the passages say."""
    text = await write(notes.client, PromptRole.SUMMARY, query=notes.query, docs=notes.docs)
    return replace(notes, summary=text)


async def answer_from_summary(notes: Notes) -> Notes:
    """Answer from what was written down."""
    role = PromptRole.ANSWER_FROM_SUMMARY
    text = await write(notes.client, role, query=notes.query, summary=notes.summary)
    return replace(notes, answer=text)


_ANSWER: Final = Step("answer", StepKind.WRITE, answer)
RETRIEVE_ALL: Final = Step("retrieve_all", StepKind.RETRIEVE, retrieve_all)
RETRIEVE_ONE: Final = Step("retrieve_one", StepKind.RETRIEVE, retrieve)  # where one is split
STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    "oneshot": (Step("retrieve", StepKind.RETRIEVE, retrieve), _ANSWER),
    "hyde": (
        Step("imagine", StepKind.WRITE, imagine),
        Step("retrieve", StepKind.RETRIEVE, retrieve),
        _ANSWER,
    ),
    "multistep": (Step("decompose", StepKind.WRITE, decompose), RETRIEVE_ALL, _ANSWER),
    "irg": tuple(
        step
        for turn in range(IRG_TURNS)
        for step in (
            Step(f"retrieve_{turn}", StepKind.RETRIEVE, retrieve_more),
            Step(f"answer_{turn}", StepKind.WRITE, answer),
        )
    ),
    "recomp": (
        Step("retrieve", StepKind.RETRIEVE, retrieve_six),
        Step("compress", StepKind.WRITE, compress),
        Step("answer", StepKind.WRITE, answer_from_summary),
    ),
}
