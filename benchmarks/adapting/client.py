"""A program of a framework in a process of its own: `client.py FRAMEWORK VARIANT SETTING`.

It prints a line when it is ready, then answers each line of arrivals with a line of outcomes.
"""

import asyncio
import json
import sys
import time
from importlib import import_module
from typing import Any

from benchmarks.adapting.setting import Ask, Setting


async def _block(ask: Ask, arrivals: list[list[Any]], in_flight: int) -> dict[str, Any]:
    """Ask questions at their times, or with a number in flight; return latencies and answers."""
    room = asyncio.Semaphore(in_flight or len(arrivals))
    started_s = time.perf_counter()

    async def one(at_s: float, question: str) -> tuple[float, str, list[str]]:
        await asyncio.sleep(max(0.0, started_s + at_s - time.perf_counter()))
        async with room:
            begun_s = time.perf_counter()
            told = await ask(question)
            return time.perf_counter() - begun_s, told.answer, list(told.primitives_seen)

    done = await asyncio.gather(*(one(at_s, question) for at_s, question in arrivals))
    seconds = time.perf_counter() - started_s
    seen = sorted({node for _, _, nodes in done for node in nodes})
    return {
        "latencies_s": [one[0] for one in done],
        "answers": [one[1] for one in done],
        "primitives_seen": seen,
        "seconds": seconds,
    }


async def main(framework: str, variant: str, setting: Setting) -> None:
    """Answer blocks until the input ends."""
    ask = import_module(f"benchmarks.adapting.{framework}_program").program(variant, setting)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        found = await _block(ask, asked["arrivals"], asked["in_flight"])
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Setting(**json.loads(sys.argv[3]))))
