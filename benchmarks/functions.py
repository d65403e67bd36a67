"""Latency of HedraRAG's five workflows written as functions, beside the same as graphs.

Both run on one server: real questions over Wikipedia passages, the reader as LLM in float32. First
each question is asked alone in both forms, one after the other, in an order that is reversed each
time: every text that a model writes must be the same, and so must the counts of tokens, else the
run fails. Then blocks of questions go to both forms in turns, with some requests in flight. Each
form and block has a prefix cache of its own.

x_* are the graphs' p50 over the functions', above 1 = functions are faster: `x_graph_p50` of the
questions asked alone, `x_loaded_p50` of the blocks. `_low95` is the lower bound of a paired
bootstrap, over the blocks or over groups of the questions. Bar: the functions' p50 is within 3 % of
the graphs'. With requests in flight a block depends on who overtakes whom, so blocks of the same
questions differ by tens of percent.
"""

import asyncio
import runpy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.coscheduling.asks import WORKFLOWS, Ask, blocks_of
from benchmarks.coscheduling.ratios import Ratio, median, ratio
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import wiki_index
from heddle import Answer, App, Server, TokenDelta, WorkflowFunction
from heddle.core.errors import InternalError

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "as_functions.py"
FORMS: Final = ("graph", "function")
Apps = Mapping[str, App]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: questions asked alone, in how many groups; asks of a block, blocks,
    requests in flight."""

    alone: int
    groups: int
    asks: int
    blocks: int
    in_flight: int


FULL: Final = Size(200, 20, 40, 12, 4)
QUICK: Final = Size(5, 1, 5, 2, 2)


@dataclass(frozen=True, slots=True)
class Block:
    """One form's block: how long each ask took [s], `in_flight` at once."""

    form: str
    number: int
    in_flight: int
    latencies_s: tuple[float, ...]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Compare what both forms write, then how long they take."""
    size = QUICK if quick else FULL
    wiki = wiki_index(quick)
    questions = [row["question"] for name in (wiki.single, wiki.multihop) for row in rows(name)]
    with Server("reader", wiki.directory, dtype="float32") as server:
        apps = {form: dict(_apps(server, form)) for form in FORMS}
        groups = blocks_of(questions, size.alone // size.groups, size.groups, 0.0, seed)
        table = [
            block for number, asks in enumerate(groups) for block in _alone(apps, asks, number)
        ]
        table += asyncio.run(_blocks(apps, questions, size, seed + 1))
    alone, loaded = _ratio(table, 1, seed), _ratio(table, size.in_flight, seed)
    return {
        "settings": asdict(size),
        "rows": [asdict(block) for block in table],
        "headline": {
            "x_graph_p50": alone.value,
            "x_graph_p50_low95": alone.low95,
            "x_loaded_p50": loaded.value,
            "x_loaded_p50_low95": loaded.low95,
            "tokens_equal": 1.0,  # else the run has failed
        },
    }


def _ratio(table: Sequence[Block], in_flight: int, seed: int) -> Ratio:
    taken = {
        form: [b.latencies_s for b in table if (b.form, b.in_flight) == (form, in_flight)]
        for form in FORMS
    }
    return ratio(taken["function"], taken["graph"], median, seed)


def _apps(server: Server, form: str) -> Iterator[tuple[str, App]]:
    """Yield each of the five workflows in one form."""
    written = runpy.run_path(str(EXAMPLE))
    for name in WORKFLOWS:
        function = written[name]
        assert isinstance(function, WorkflowFunction), f"{EXAMPLE} has no workflow {name}"
        yield name, server.app(name if form == "graph" else function)


def _alone(apps: Mapping[str, Apps], asks: Sequence[Ask], number: int) -> list[Block]:
    """Ask each question alone in both forms.

    Raises:
        InternalError: they did not do the same work.
    """
    taken_s: dict[str, list[float]] = {form: [] for form in FORMS}
    for turn, ask in enumerate(asks, number):
        done = {}
        for form in FORMS if turn % 2 == 0 else FORMS[::-1]:
            came_s = time.perf_counter()
            done[form] = _work(apps[form][ask.workflow], ask, form)
            taken_s[form].append(time.perf_counter() - came_s)
        if done["graph"] != done["function"]:
            raise InternalError(
                f"{ask.workflow} did other work as a function for {ask.question!r}: "
                f"{done['function']} instead of {done['graph']}"
            )
    blocks = [Block(form, number, 1, tuple(taken_s[form])) for form in FORMS]
    print("alone", *(f"{b.form} {b.number}: p50 {median(b.latencies_s):.3f} s" for b in blocks))
    return blocks


def _work(app: App, ask: Ask, form: str) -> tuple[object, ...]:
    """Return what a request's generations wrote, in order, and counts of what was done."""
    events = list(app.stream(ask.question, tenant=f"alone-{form}"))
    answer = events[-1]
    if not isinstance(answer, Answer):
        raise InternalError(f"{ask.workflow} has no answer for {ask.question!r}: {answer}")
    receipt = answer.receipt
    return (
        "".join(event.text for event in events if isinstance(event, TokenDelta)),
        answer.text,
        tuple(passage.chunk_id for passage in answer.passages),
        receipt.prompt_tokens,
        receipt.generated_tokens,
        receipt.lists_scanned,
    )


async def _blocks(
    apps: Mapping[str, Apps], questions: Sequence[str], size: Size, seed: int
) -> list[Block]:
    table = []
    for number, asks in enumerate(blocks_of(questions, size.asks, size.blocks, 0.0, seed)):
        for form in FORMS if number % 2 == 0 else FORMS[::-1]:
            taken_s = await _latencies_s(apps[form], asks, f"{number}-{form}", size.in_flight)
            table.append(Block(form, number, size.in_flight, tuple(taken_s)))
            print(f"{form:<9} block {number}: p50 {median(taken_s):.3f} s", flush=True)
    return table


async def _latencies_s(apps: Apps, asks: Sequence[Ask], salt: str, in_flight: int) -> list[float]:
    """Return how long each ask took while some are in flight [s]."""
    loop = asyncio.get_running_loop()
    left, taken_s = iter(asks), []

    async def one_after_the_other() -> None:
        for ask in left:
            came_s = loop.time()
            await apps[ask.workflow].ainvoke(ask.question, tenant=salt)
            taken_s.append(loop.time() - came_s)

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
    return taken_s
