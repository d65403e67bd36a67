"""Blocks: the same arrivals for each contender, one contender after the other."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Final

from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.contenders import Driver, MakeDriver, answered
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.lane_set import LaneSet
from benchmarks.coscheduling.ratios import median
from benchmarks.coscheduling.stolen import Stolen
from heddle.core.errors import HeddleError

STOLEN_MAX: Final = 0.05
ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True)
class Contender:
    """Who answers on which lanes; `generations` takes in what its blocks have generated."""

    name: str
    lanes: LaneSet
    make: MakeDriver
    generations: Generations = field(default_factory=Generations)


@dataclass(frozen=True, slots=True)
class Block:
    """One contender's block: how long each ask took [s], the share of time that was stolen."""

    cell: str
    contender: str
    number: int
    latencies_s: tuple[float, ...]
    stolen: float


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
        HeddleError, ExceptionGroup: it failed both times.
    """
    disturbed: Ran | None = None
    for attempt in range(ATTEMPTS):
        try:
            ran = await _once(contender, cell, number, attempt, asks)
        except (HeddleError, ExceptionGroup) as error:
            journal.note("failed", {"cell": cell, "contender": contender.name, "why": repr(error)})
            print(f"{cell} {contender.name} block {number} failed: {error!r}", flush=True)
            if attempt == ATTEMPTS - 1 and disturbed is None:
                raise
            continue
        journal.note("block", asdict(ran.block))
        _print(ran.block)
        if ran.block.stolen <= STOLEN_MAX:
            return ran
        disturbed = ran
    assert disturbed is not None, "each attempt returns, raises, or was disturbed"
    return disturbed


async def _once(
    contender: Contender, cell: str, number: int, attempt: int, asks: Sequence[Ask]
) -> Ran:
    salt = f"{cell}-{number}-{attempt}-{contender.name}"
    driver = contender.make(contender.lanes, salt, contender.generations)
    try:
        with Stolen() as stolen:
            took = await answered(driver.answer, asks)
    except BaseException:
        await _leave(driver)
        raise
    await driver.end()
    seconds = tuple(one.seconds for one in took)
    block = Block(cell, contender.name, number, seconds, stolen.share)
    return Ran(block, tuple(asks), tuple(one.text for one in took))


async def _leave(driver: Driver) -> None:
    """End a driver whose block has failed for another reason already."""
    with suppress(HeddleError):
        await driver.end()


def _print(block: Block) -> None:
    print(
        f"{block.cell:<13} {block.contender:<18} block {block.number}: "
        f"p50 {median(block.latencies_s):.3f} s, worst {max(block.latencies_s):.3f} s, "
        f"stolen {block.stolen:.1%}",
        flush=True,
    )


def latencies_of(ran: Sequence[Ran], cell: str) -> Mapping[str, list[tuple[float, ...]]]:
    """Return the latencies [s] of a cell's blocks by contender, in the blocks' order."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for block in sorted((one.block for one in ran), key=lambda block: block.number):
        if block.cell == cell:
            found.setdefault(block.contender, []).append(block.latencies_s)
    return found
