"""Blocks: the same arrivals for each contender, one contender after the other."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Final

from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.contenders import Driver, MakeDriver, answered
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.lane_set import LaneSet
from benchmarks.coscheduling.ratios import median
from benchmarks.coscheduling.stolen import Stolen
from benchmarks.coscheduling.tried_twice import tried_twice
from heddle.core.errors import HeddleError

STOLEN_MAX: Final = 0.05
_runs = itertools.count()  # each has a prefix cache of its own


@dataclass(frozen=True, slots=True)
class Contender:
    """Who answers on which lanes; `generations` takes in what its blocks have generated."""

    name: str
    lanes: LaneSet
    make: MakeDriver
    generations: Generations = field(default_factory=Generations)


@dataclass(frozen=True, slots=True)
class Block:
    """One contender's block: how long each ask took [s], the share of time that was stolen.

    `worked_s` is how long the steps of each engine took in all [s]: contenders that do the same
    work on a machine that stays as fast have about the same; `work` is what the steps had to do,
    by the features of each engine's cost model. `driver_s` is the CPU time of this
    process, which is the contender's: the engines have others [s].
    """

    cell: str
    contender: str
    number: int
    latencies_s: tuple[float, ...]
    stolen: float
    worked_s: Mapping[str, float] = field(default_factory=dict)
    work: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    driver_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A block, what was asked in it, and the answers."""

    block: Block
    asks: tuple[Ask, ...]
    answers: tuple[str, ...]


async def in_turns(
    contenders: Sequence[Contender],
    cell: str,
    blocks: Sequence[Sequence[Ask]],
    journal: Journal,
    first: int = 0,
) -> list[Ran]:
    """Run each block by all contenders, in an order that is reversed each time.

    `first` is the number of the first block.
    """
    ran = []
    for number, asks in enumerate(blocks, first):
        order = contenders if number % 2 == 0 else contenders[::-1]
        for contender in order:
            ran.append(await run_block(contender, cell, number, asks, journal))
    return ran


async def run_block(
    contender: Contender, cell: str, number: int, asks: Sequence[Ask], journal: Journal
) -> Ran:
    """Run a block; one that was disturbed, or that failed, is run again, once.

    Raises:
        InternalError: it failed both times.
    """
    what = f"{cell} {contender.name} block {number}"

    async def run() -> Ran:
        ran = await _once(contender, cell, number, asks)
        journal.note("block", asdict(ran.block))
        _print(ran.block)
        return ran

    ran = await tried_twice(what, run, journal)
    return ran if ran.block.stolen <= STOLEN_MAX else await tried_twice(what, run, journal)


async def _once(contender: Contender, cell: str, number: int, asks: Sequence[Ask]) -> Ran:
    salt = f"{cell}-{number}-{contender.name}-{next(_runs)}"
    before_s = Counter(contender.generations.worked_s)
    before = deepcopy(contender.generations.work.sums)
    driver = contender.make(contender.lanes, salt, contender.generations)
    begun_s = time.process_time()
    try:
        with Stolen() as stolen:
            took = await answered(driver.answer, asks)
    except BaseException:
        await _leave(driver)
        raise
    driver_s = time.process_time() - begun_s
    await driver.end()
    seconds = tuple(one.seconds for one in took)
    worked_s = dict(Counter(contender.generations.worked_s) - before_s)
    work = contender.generations.work.since(before)
    block = Block(cell, contender.name, number, seconds, stolen.share, worked_s, work, driver_s)
    return Ran(block, tuple(asks), tuple(one.text for one in took))


async def _leave(driver: Driver) -> None:
    """End a driver whose block has failed for another reason already."""
    with suppress(HeddleError):
        await driver.end()


def _print(block: Block) -> None:
    print(
        f"{block.cell:<13} {block.contender:<18} block {block.number}: "
        f"p50 {median(block.latencies_s):.3f} s, worst {max(block.latencies_s):.3f} s, "
        f"engines worked {sum(block.worked_s.values()):.1f} s, "
        f"its driver {block.driver_s:.1f} s, stolen {block.stolen:.1%}",
        flush=True,
    )


def latencies_of(ran: Sequence[Ran], cell: str) -> Mapping[str, list[tuple[float, ...]]]:
    """Return the latencies [s] of a cell's blocks by contender, in the blocks' order."""
    return _by_contender(ran, cell, lambda block: block.latencies_s)


def worked_of(ran: Sequence[Ran], cell: str) -> Mapping[str, list[tuple[float, ...]]]:
    """Return how long each engine worked in a cell's blocks [s], in the order of latencies_of."""
    return _by_contender(ran, cell, lambda block: tuple(block.worked_s.values()))


def _by_contender(
    ran: Sequence[Ran], cell: str, seconds_of: Callable[[Block], tuple[float, ...]]
) -> Mapping[str, list[tuple[float, ...]]]:
    found: dict[str, list[tuple[float, ...]]] = {}
    for block in sorted((one.block for one in ran), key=lambda block: block.number):
        if block.cell == cell:
            found.setdefault(block.contender, []).append(seconds_of(block))
    return found
