"""An hour of requests by the openai client, that come when they come; every error counts.

`heddle serve` in a process of its own answers from Wikipedia passages (46,000; quick: 2,000), with
the reader as LLM. Requests arrive by a Poisson process, each of a kind drawn by its share: a chat
with the corpus, streamed or whole, one with the LLM alone, streamed, a workflow, embeddings, the
list of models. The client never tries again. An error is anything that it raises, an answer from
the corpus without text, a stream without its end, a vector of another length. `abandoned` streams
are those that the client leaves after the first piece, one in twenty, as people do; they are no
errors, but the server has to answer all that come after.

`grown_mb` is how much more memory the server's processes hold at the end than after half of the
time, without mapped files; the settings have it after each tenth. Caches of KV and vectors fill
first.
Bar: no errors in an hour.
"""

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.support.data import rows
from benchmarks.support.serve_process import ServeProcess, serve_process
from benchmarks.support.wiki_index import wiki_index

RATE_PER_S: Final = 1.0
FULL_S: Final = 3600.0
QUICK_S: Final = 20.0
TIMEOUT_S: Final = 120.0
ABANDONED: Final = 0.05
TENTHS: Final = 10
PROBLEMS_MAX: Final = 20  # kept in the result
MB: Final = 1e6

Ask = Callable[[Any, str, bool], Awaitable[None]]


@dataclass(slots=True)
class Tally:
    """What came of the requests so far, and the server's memory after each tenth of the time.

    Mutates: filled as they end.
    """

    taken_s: dict[str, list[float]] = field(default_factory=dict)
    abandoned: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    memory_mb: list[float] = field(default_factory=list)


async def chat(client: Any, question: str, leaves: bool, model: str = "corpus") -> None:
    """Stream an answer, and leave after the first piece if so drawn."""
    stream = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}], stream=True, max_tokens=32
    )
    text, end = "", None
    async for chunk in stream:
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
            end = chunk.choices[0].finish_reason or end
        if leaves:
            await stream.close()
            return
    may_be_empty = model == "reader" and end == "stop"  # it may have nothing to say
    if not (text or may_be_empty) or end not in ("stop", "length"):
        raise ValueError(f"the stream ended as {end} after {text!r}")


async def chat_with_llm(client: Any, question: str, leaves: bool) -> None:
    """Stream a text of the LLM alone."""
    await chat(client, question, leaves, model="reader")


async def whole(client: Any, question: str, _: bool, model: str = "corpus") -> None:
    """Wait for a whole answer."""
    reply = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}], max_tokens=32
    )
    if not reply.choices[0].message.content:
        raise ValueError(f"no text: {reply.choices[0]}")


async def workflow(client: Any, question: str, leaves: bool) -> None:
    """Wait for a workflow that writes twice."""
    await whole(client, question, leaves, model="workflow:hyde")


async def embeddings(client: Any, question: str, _: bool) -> None:
    """Embed two texts."""
    reply = await client.embeddings.create(model="any", input=[question, question[::-1]])
    if [len(one.embedding) for one in reply.data] != [384, 384]:
        raise ValueError(f"vectors of {[len(one.embedding) for one in reply.data]}")


async def models(client: Any, question: str, leaves: bool) -> None:
    """List the models."""
    del question, leaves
    if not (await client.models.list()).data:
        raise ValueError("no models")


KINDS: Final[dict[Ask, float]] = {
    chat: 0.35,
    whole: 0.15,
    chat_with_llm: 0.2,
    workflow: 0.1,
    embeddings: 0.15,
    models: 0.05,
}


def run(quick: bool, seed: int) -> dict[str, object]:
    """Send requests for an hour, or some seconds."""
    seconds = QUICK_S if quick else FULL_S
    wiki = wiki_index(quick)
    questions = [row["question"] for name in (wiki.single, wiki.multihop) for row in rows(name)]
    with serve_process(wiki.directory, "--model", "reader") as server:
        asyncio.run(_load(server, questions[:8], 8.0, Tally(), random.Random(seed)))  # warms up
        tally = Tally()
        asyncio.run(_load(server, questions, seconds, tally, random.Random(seed + 1)))
    done = sum(map(len, tally.taken_s.values()))
    for problem, times in tally.problems.most_common(PROBLEMS_MAX):
        print(f"{times} ×: {problem}")
    return {
        "settings": {
            "rate_per_s": RATE_PER_S,
            "seconds": seconds,
            "timeout_s": TIMEOUT_S,
            "memory_mb": tally.memory_mb,
        },
        "rows": [_row(kind, taken_s) for kind, taken_s in sorted(tally.taken_s.items())],
        "headline": {
            "requests": done + tally.abandoned + tally.problems.total(),
            "errors": tally.problems.total(),
            "abandoned": tally.abandoned,
            "grown_mb": tally.memory_mb[-1] - tally.memory_mb[TENTHS // 2 - 1],
        },
    }


def _row(kind: str, taken_s: Sequence[float]) -> dict[str, object]:
    return {
        "kind": kind,
        "requests": len(taken_s),
        "p50_s": statistics.median(taken_s),
        "worst_s": max(taken_s),
    }


async def _load(
    server: ServeProcess,
    questions: Sequence[str],
    seconds: float,
    tally: Tally,
    draws: random.Random,
) -> None:
    """Send requests as they come. Mutates: `tally`."""
    import openai

    kinds, shares = list(KINDS), list(KINDS.values())
    began_s, due_s = time.monotonic(), 0.0
    async with (
        openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="any", max_retries=0, timeout=TIMEOUT_S
        ) as client,
        asyncio.TaskGroup() as tasks,
    ):
        while (due_s := due_s + draws.expovariate(RATE_PER_S)) < seconds:
            await asyncio.sleep(max(0.0, began_s + due_s - time.monotonic()))
            if due_s >= seconds * (len(tally.memory_mb) + 1) / TENTHS:
                tally.memory_mb.append(server.own_bytes() / MB)
            (kind,) = draws.choices(kinds, shares)
            leaves = kind in (chat, chat_with_llm) and draws.random() < ABANDONED
            tasks.create_task(_one(kind, client, draws.choice(questions), leaves, tally))
    tally.memory_mb.append(server.own_bytes() / MB)


async def _one(kind: Ask, client: Any, question: str, leaves: bool, tally: Tally) -> None:
    name, began_s = getattr(kind, "__name__", ""), time.monotonic()
    try:
        await kind(client, question, leaves)
    except Exception as error:  # of the client, or of a wrong reply: each one counts
        tally.problems[f"{name}: {type(error).__name__}: {str(error)[:200]}"] += 1
        return
    if leaves:
        tally.abandoned += 1
    else:
        tally.taken_s.setdefault(name, []).append(time.monotonic() - began_s)
