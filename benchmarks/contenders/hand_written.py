"""The five workflows as a programmer would write them with asyncio, prompts as in the presets."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from heddle.core.passages import Passage
from heddle.graph.primitive import Part, Read
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.values import as_lines, prompt_parts, unique_passages
from heddle.workflow import presets
from heddle.workflow.template import Slot, parse_template


class Client(Protocol):
    """What a workflow needs."""

    async def retrieve(self, query: str, topk: int) -> tuple[Passage, ...]:
        """Return passages for a query."""
        ...

    async def generate(self, parts: Sequence[str | Passage | None], max_tokens: int) -> str:
        """Return the model's text for a prompt."""
        ...


def prompt(template: str, **slots: object) -> list[str | Passage | None]:
    """Return a preset's prompt, filled, in the same parts that Heddle makes of it."""
    store = ObjectStore()
    for name, value in slots.items():
        store.put(name, value)
    parts: list[Part] = [
        Read(part.name) if isinstance(part, Slot) else part
        for part in parse_template(template, where="prompt").parts
    ]
    return prompt_parts(parts, store, "prompt")


async def _answer(client: Client, query: str, docs: tuple[Passage, ...]) -> str:
    return await client.generate(
        prompt(presets.ANSWER, query=query, docs=docs), presets.ANSWER_TOKENS
    )


async def oneshot(client: Client, query: str) -> str:
    """Retrieve, answer."""
    return await _answer(client, query, await client.retrieve(query, 5))


async def hyde(client: Client, query: str) -> str:
    """Imagine, retrieve, answer."""
    text = await client.generate(prompt(presets.HYDE, query=query), presets.PASSAGE_TOKENS)
    return await _answer(client, query, await client.retrieve(f"{query} {text}", 5))


async def multistep(client: Client, query: str) -> str:
    """Decompose, retrieve for each sub-question in turn, answer."""
    text = await client.generate(prompt(presets.DECOMPOSE, query=query), presets.PASSAGE_TOKENS)
    docs: tuple[Passage, ...] = ()
    for question in as_lines(text) or ("",):
        docs = unique_passages((docs, await client.retrieve(f"{query} {question}", 5)))
    return await _answer(client, query, docs)


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
    summary = await client.generate(
        prompt(presets.COMPRESS, query=query, docs=docs), presets.PASSAGE_TOKENS
    )
    return await client.generate(
        prompt(presets.ANSWER_FROM_SUMMARY, query=query, summary=summary), presets.ANSWER_TOKENS
    )


HAND_WRITTEN: Mapping[str, Callable[[Client, str], Awaitable[str]]] = {
    "oneshot": oneshot,
    "hyde": hyde,
    "multistep": multistep,
    "irg": irg,
    "recomp": recomp,
}
