"""The five workflows as a programmer would write them with asyncio, with the server's prompts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Protocol

from heddle.app.models.model_source import model_directory
from heddle.app.models.prompt_files import prompts_of
from heddle.core.passages import Passage
from heddle.core.system_text import PromptPart
from heddle.graph.primitive import Part, Read
from heddle.runtime.fence import fenced
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.values import prompt_parts, unique_passages
from heddle.runtime.written_list import as_lines
from heddle.workflow import presets
from heddle.workflow.model_prompts import ModelPrompts
from heddle.workflow.nodes import PromptRole
from heddle.workflow.template import Slot, Template


class Client(Protocol):
    """What a workflow needs."""

    async def retrieve(self, query: str, topk: int) -> tuple[Passage, ...]:
        """Return passages for a query."""
        ...

    async def retrieve_all(self, queries: Sequence[str], topk: int) -> list[tuple[Passage, ...]]:
        """Return passages for each of some queries, which are embedded and searched together."""
        ...

    async def generate(self, parts: Sequence[PromptPart], max_tokens: int) -> str:
        """Return the model's text for a prompt."""
        ...


def prompt(template: Template, **slots: object) -> list[PromptPart]:
    """Return a preset's prompt, filled, in the same parts that Heddle makes of it."""
    store = ObjectStore()
    for name, value in slots.items():
        store.put(name, value)
    parts: list[Part] = [
        Read(part.name) if isinstance(part, Slot) else part for part in template.parts
    ]
    return prompt_parts(parts, store, "prompt")


@cache
def _prompts() -> ModelPrompts:
    """The reader's own prompts, which the server uses, too."""
    return prompts_of(model_directory("reader"))


async def write(client: Client, role: PromptRole, **slots: object) -> str:
    """Return the model's text for the prompt that it has for a role."""
    own = _prompts()[role]
    assert own.max_tokens is not None, "the reader's prompts have bounds"
    parts = prompt(own.prompt, **slots)
    return await client.generate(fenced(parts) if own.fence else parts, own.max_tokens)


async def _answer(client: Client, query: str, docs: tuple[Passage, ...]) -> str:
    return await write(client, PromptRole.ANSWER, query=query, docs=docs)


async def oneshot(client: Client, query: str) -> str:
    """Retrieve, answer."""
    return await _answer(client, query, await client.retrieve(query, 5))


async def hyde(client: Client, query: str) -> str:
    """Imagine, retrieve, answer."""
    text = await write(client, PromptRole.HYPOTHESIS, query=query)
    return await _answer(client, query, await client.retrieve(f"{query} {text}", 5))


async def multistep(client: Client, query: str) -> str:
    """Decompose, retrieve for all sub-questions at once, answer."""
    text = await write(client, PromptRole.SUBQUESTIONS, query=query)
    found = await client.retrieve_all([f"{query} {one}" for one in as_lines(text) or ("",)], 5)
    return await _answer(client, query, unique_passages(found))


async def irg(client: Client, query: str) -> str:
    """Retrieve and answer, twice."""
    docs: tuple[Passage, ...] = ()
    answer = ""
    for _ in range(presets.IRG_TURNS):
        docs = unique_passages((docs, await client.retrieve(f"{query} {answer}", 5)))
        answer = await _answer(client, query, docs)
    return answer


async def recomp(client: Client, query: str) -> str:
    """Retrieve, compress, answer."""
    docs = await client.retrieve(query, 6)
    summary = await write(client, PromptRole.SUMMARY, query=query, docs=docs)
    return await write(client, PromptRole.ANSWER_FROM_SUMMARY, query=query, summary=summary)


Program = Callable[[Client, str], Awaitable[str]]
"""A workflow: answers a question with what a client offers."""

HAND_WRITTEN: Mapping[str, Program] = {
    "oneshot": oneshot,
    "hyde": hyde,
    "multistep": multistep,
    "irg": irg,
    "recomp": recomp,
}
