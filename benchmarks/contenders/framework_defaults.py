"""The defaults of frameworks that can cost throughput."""

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from benchmarks.contenders.hand_written import Program
from benchmarks.contenders.workflow_steps import Notes, Step


class Default(Enum):
    """One default; a benchmark lifts all of them, or puts them in force one by one."""

    THREADS = "steps are plain functions on the event loop's pool of threads"
    ONE_QUERY = "a retriever takes one query"
    WORKERS = "concurrency_limit=4, or num_workers=4"
    TIMEOUT = "timeout=45"


Defaults = frozenset[Default]
LIFTED: Final[Defaults] = frozenset()
WORKERS: Final = 4
WORKERS_LIFTED: Final = 64
TIMEOUT_S: Final = 45.0

MakePrograms = Callable[[Defaults], Mapping[str, Program]]
"""Called on the running loop; returns the five workflows in a framework."""


def blocking(step: Step) -> Callable[[Notes], Notes]:
    """Return a step as a plain function, which waits for the engines on the thread that runs it.

    Call it on the running loop: that is where the engines' client lives.
    """
    loop = asyncio.get_running_loop()

    async def run(notes: Notes) -> Notes:
        return await step.run(notes)

    def run_here(notes: Notes) -> Notes:
        return asyncio.run_coroutine_threadsafe(run(notes), loop).result()

    return run_here
