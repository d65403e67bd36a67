"""Latency of HedraRAG's five workflows written as functions, beside the same as graphs.

Both run on one server: real questions over Wikipedia passages, the reader as LLM in float32. First
each question is asked alone in both forms: every text that a model writes must be the same, and so
must the counts of tokens, else the run fails. Then blocks of questions go to both forms in turns,
whose order is reversed each time, with some requests in flight. Every block has a prefix cache of
its own.

`x_graph_p50` is the graphs' p50 over the functions', above 1 = functions are faster; `_low95` is
the lower bound of a paired bootstrap over the blocks. Bar: the functions' p50 is within 3 % of the
graphs'.
"""

import asyncio
import runpy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.coscheduling.asks import WORKFLOWS, Ask, blocks_of
from benchmarks.coscheduling.ratios import median, ratio
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import wiki_index
from heddle import Answer, App, Server, TokenDelta, WorkflowFunction
from heddle.core.errors import InternalError

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "as_functions.py"
FORMS: Final = ("graph", "function")
Apps = Mapping[str, App]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: questions asked alone, asks of a block, blocks, requests in flight."""

    alone: int
    asks: int
    blocks: int
    in_flight: int


FULL: Final = Size(10, 40, 12, 4)
QUICK: Final = Size(1, 5, 2, 2)


@dataclass(frozen=True, slots=True)
class Block:
    """One form's block: how long each ask took [s]."""

    form: str
    number: int
    latencies_s: tuple[float, ...]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Compare what both forms write, then how long they take."""
    size = QUICK if quick else FULL
    wiki = wiki_index(quick)
    questions = [row["question"] for name in (wiki.single, wiki.multihop) for row in rows(name)]
    with Server("reader", wiki.directory, dtype="float32") as server:
        apps = {form: dict(_apps(server, form)) for form in FORMS}
        asks = blocks_of(questions, size.alone * len(WORKFLOWS), 1, 0.0, seed)[0]
        _check_alike(apps, asks)
        table = asyncio.run(_blocks(apps, questions, size, seed + 1))
    taken = {form: [b.latencies_s for b in table if b.form == form] for form in FORMS}
    p50 = ratio(taken["function"], taken["graph"], median, seed)
    return {
        "settings": asdict(size),
        "rows": [asdict(block) for block in table],
        "headline": {
            "x_graph_p50": p50.value,
            "x_graph_p50_low95": p50.low95,
            "tokens_equal": 1.0,  # else the run has failed
        },
    }


def _apps(server: Server, form: str) -> Iterator[tuple[str, App]]:
    """Yield each of the five workflows in one form."""
    written = runpy.run_path(str(EXAMPLE))
    for name in WORKFLOWS:
        function = written[name]
        assert isinstance(function, WorkflowFunction), f"{EXAMPLE} has no workflow {name}"
        yield name, server.app(name if form == "graph" else function)


def _check_alike(apps: Mapping[str, Apps], asks: Sequence[Ask]) -> None:
    """Ask each question alone in both forms.

    Raises:
        InternalError: they did not do the same work.
    """
    for ask in asks:
        drawn, written = (_work(apps[form][ask.workflow], ask, form) for form in FORMS)
        if drawn != written:
            raise InternalError(
                f"{ask.workflow} did other work as a function for {ask.question!r}: {written} "
                f"instead of {drawn}"
            )


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
            table.append(Block(form, number, tuple(taken_s)))
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
