import asyncio
import json
from collections.abc import Callable
from typing import cast

import pytest

from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.blocks import (
    Block,
    Contender,
    Ran,
    in_turns,
    latencies_of,
    run_block,
    worked_of,
)
from benchmarks.coscheduling.contenders import MakeDriver, answered, capacity_per_s
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.lane_set import LaneSet
from heddle.core.errors import InternalError

ASKS = [Ask("oneshot", f"question {number}", None, 0.0) for number in range(10)]


class Scripted:
    """A driver that answers with the question, after what a script does."""

    def __init__(self, script: Callable[[Ask], None]) -> None:
        self._script = script

    async def answer(self, ask: Ask) -> str:
        self._script(ask)
        await asyncio.sleep(0)
        return ask.question.upper()

    async def end(self) -> None:
        pass


def contender(name: str, script: Callable[[Ask], None] = lambda ask: None) -> Contender:
    def make(lanes: LaneSet, salt: str, generations: Generations) -> Scripted:
        made.append(salt)
        return Scripted(script)

    return Contender(name, cast("LaneSet", None), cast("MakeDriver", make))


made: list[str] = []  # the names of the drivers' prefix caches


@pytest.fixture(autouse=True)
def _forget() -> None:
    made.clear()


def test_the_order_of_contenders_is_reversed_each_time() -> None:
    run = in_turns(
        [contender("a"), contender("b")], "light", [ASKS, ASKS], Journal("test"), first=4
    )
    ran = asyncio.run(run)
    assert [(one.block.contender, one.block.number) for one in ran] == [
        ("a", 4),
        ("b", 4),
        ("b", 5),
        ("a", 5),
    ]
    assert ran[0].answers[0] == "QUESTION 0"
    assert len(set(made)) == 4
    taken = latencies_of(ran, "light")
    assert {name: len(blocks) for name, blocks in taken.items()} == {"a": 2, "b": 2}
    assert latencies_of(ran, "heavy") == {}


def test_how_long_engines_worked_is_told_block_by_block() -> None:
    ran = [
        Ran(Block(cell, "a", number, (9.0,), 0.0, {"llm": llm_s, "vector": 0.5}), (), ())
        for cell, number, llm_s in (("light", 1, 3.0), ("heavy", 0, 7.0), ("light", 0, 2.0))
    ]
    assert worked_of(ran, "light") == {"a": [(2.0, 0.5), (3.0, 0.5)]}


def test_a_block_that_fails_is_run_again_once() -> None:
    failing = [True]

    def script(ask: Ask) -> None:
        if failing:
            failing.clear()
            raise InternalError("a frame was lost")

    journal = Journal("test")
    ran = asyncio.run(run_block(contender("a", script), "light", 0, ASKS, journal))
    assert len(ran.block.latencies_s) == len(ASKS)
    kinds = [json.loads(line)["kind"] for line in journal.path.read_text().splitlines()]
    assert kinds == ["failed", "block"]


def test_a_block_that_fails_twice_fails() -> None:
    def script(ask: Ask) -> None:
        raise InternalError("a frame was lost")

    with pytest.raises(InternalError, match="failed twice"):
        asyncio.run(run_block(contender("a", script), "light", 0, ASKS, Journal("test")))
    assert len(made) == 2


def test_answers_come_in_the_order_of_the_asks() -> None:
    driver = Scripted(lambda ask: None)
    found = asyncio.run(answered(driver.answer, ASKS))
    assert [one.text for one in found] == [ask.question.upper() for ask in ASKS]


def test_capacity_counts_the_middle_of_a_saturated_run() -> None:
    per_s = asyncio.run(capacity_per_s(Scripted(lambda ask: None), ASKS, 4))
    assert per_s > 0
