import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from benchmarks.contenders.port_client import PortClient
from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.lane_set import LaneSet
from benchmarks.coscheduling.stage_barrier import StageBarrier
from heddle.core.errors import EngineError
from heddle.core.passages import Passage
from heddle.core.system_text import PromptPart


class Engines:
    """A client whose calls take some turns of the loop; notes when which kind began and ended."""

    def __init__(self, fails: bool = False) -> None:
        self.events: list[str] = []
        self._fails = fails

    async def retrieve_all(
        self, queries: Sequence[str], topk: int, nprobe: int | None
    ) -> list[tuple[Passage, ...]]:
        await self._work("search", len(queries[0]))
        return [(Passage(1, "d", "title", "text"),) for _ in queries]

    async def generate(self, parts: Sequence[PromptPart], max_tokens: int) -> str:
        if self._fails:
            raise EngineError("gone", engine="llm", request_ids=())
        await self._work("write", len(repr(parts)))
        return "first?\nsecond?"

    async def _work(self, kind: str, turns: int) -> None:
        self.events.append(f"{kind} begins")
        for _ in range(turns % 5 + 1):
            await asyncio.sleep(0)
        self.events.append(f"{kind} ends")


def barrier(engines: Engines) -> StageBarrier:
    return StageBarrier(cast("LaneSet", None), cast("PortClient", engines))


def test_no_search_runs_beside_a_generation() -> None:
    engines = Engines()

    async def run() -> list[str]:
        driver = barrier(engines)
        names = ("oneshot", "hyde", "multistep", "irg", "recomp", "hyde")
        asks = [Ask(name, f"question {n}", None, 0.0) for n, name in enumerate(names)]
        return list(await asyncio.gather(*(driver.answer(ask) for ask in asks)))

    assert asyncio.run(run()) == ["first?\nsecond?"] * 6
    running: set[str] = set()
    counts = {"search": 0, "write": 0}
    most = 0
    for event in engines.events:
        kind, what = event.split()
        counts[kind] += 1 if what == "begins" else -1
        running = {kind for kind, count in counts.items() if count}
        assert len(running) <= 1
        most = max(most, *counts.values())
    assert most > 1  # a stage is a batch
    assert not running


def test_a_request_that_comes_later_joins() -> None:
    async def run() -> str:
        driver = barrier(Engines())
        first = asyncio.create_task(driver.answer(Ask("irg", "one?", None, 0.0)))
        for _ in range(4):
            await asyncio.sleep(0)
        later = await driver.answer(Ask("oneshot", "two?", None, 0.0))
        await first
        return later + await driver.answer(Ask("oneshot", "three?", None, 0.0))

    assert asyncio.run(run()) == "first?\nsecond?" * 2


def test_a_step_that_fails_ends_its_request() -> None:
    async def run() -> None:
        await barrier(Engines(fails=True)).answer(Ask("oneshot", "one?", None, 0.0))

    with pytest.raises(EngineError):
        asyncio.run(run())
