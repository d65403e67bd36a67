"""Engines that answer on the loop's next turn: what is left is the orchestrator's own CPU."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

TOPK = 5
DIMS = 384
DOCS = tuple({"id": i, "title": f"title {i}", "text": f"passage {i}"} for i in range(TOPK))
VECTOR = [0.0] * DIMS


async def _turn() -> None:
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[None] = loop.create_future()
    loop.call_soon(answered.set_result, None)
    await answered


async def generate(prompt: str) -> str:
    """Answer a prompt."""
    await _turn()
    return "a passage that could answer"


async def embed(text: str) -> list[float]:
    """Embed a text."""
    await _turn()
    return VECTOR


async def search(vector: list[float]) -> tuple[dict[str, object], ...]:
    """Search for a vector."""
    await _turn()
    return DOCS


def answer_prompt(query: str, docs: tuple[dict[str, object], ...]) -> str:
    """Return the answer step's prompt."""
    notes = "".join(f"## {d['title']}\n{d['text']}\n\n" for d in docs)
    return f"Answer the question from the notes.\n\n{notes}Question: {query}"


def measure(ask: Callable[[str], Awaitable[object]]) -> None:
    """Run requests 32 at a time and print the CPU milliseconds of one as JSON."""
    count, concurrency = int(sys.argv[1]), int(sys.argv[2])

    async def wave(size: int) -> None:
        await asyncio.gather(*(ask("what is a loom?") for _ in range(size)))

    async def run() -> float:
        await wave(concurrency)  # warm up: imports, caches
        started_s = time.process_time()
        for _ in range(count // concurrency):
            await wave(concurrency)
        return (time.process_time() - started_s) / (count // concurrency * concurrency)

    print(json.dumps({"ms": asyncio.run(run()) * 1e3}))
