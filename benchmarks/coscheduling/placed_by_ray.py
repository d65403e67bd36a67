"""`--host ray --compare process`: the same answers where Ray has placed the LLM lane.

The five workflows, in equal shares and all questions at once, are asked of two servers on the light
corpus: one has its LLM lane on a node of a Ray cluster, the other in a process of this machine. The
cluster is one node on this machine, with the same core for its lane as the other server's lane.

`texts_equal`: of all questions, those with the same text, to the letter. `documents_equal`: those
whose searches all found the same passages in the same order, or passages that are as far from the
query. `near_ties`: generations that part where the two best tokens are as close as rounding. The
run fails where generations part anywhere else, so below 1 a figure has a near-tie as its reason.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean
from typing import Any, Final, NamedTuple

from benchmarks.coscheduling.asks import Ask, blocks_of
from benchmarks.coscheduling.blocks import Contender
from benchmarks.coscheduling.contenders import HeddleDriver, HeddleServer, compiled
from benchmarks.coscheduling.lane_set import LaneSet, lane_set
from benchmarks.coscheduling.same_work import same_work
from benchmarks.coscheduling.search_calls import SearchCalls
from benchmarks.coscheduling.sizes import size_of
from benchmarks.support.data import rows
from benchmarks.support.held_cores import held_to
from benchmarks.support.ray_head import RayHead, ray_token
from benchmarks.support.wiki_index import WikiIndex, wiki_index
from heddle.core.errors import InputError
from heddle.core.passages import Passage
from heddle.runtime.events import RequestEvent, Retrieved

CORES_MIN: Final = 2
TIE: Final = 1e-6  # of squared distances in float32
KV_BYTES: Final = 64 << 20


class Search(NamedTuple):
    """A search of a workflow: its node, and the passages it found."""

    node: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A question's text, and its searches by their nodes."""

    text: str
    searches: tuple[Search, ...]


def measured(quick: bool, seed: int) -> dict[str, Any]:
    """Ask both servers.

    Raises:
        InputError: there is one core only, or no package ray.
        InternalError: they did not do the same work.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < CORES_MIN:
        raise InputError(f"--host ray needs {CORES_MIN} cores: the LLM lane has one to itself")
    if find_spec("ray") is None:
        raise InputError("--host ray needs the package ray: pip install 'heddle[ray]'")
    wiki, count = wiki_index(quick), size_of(quick).at_once
    asks = blocks_of(_questions(wiki), count, 1, 0.0, seed)[0]
    with ExitStack() as started:
        started.enter_context(ray_token())
        with held_to(cpus[1:2]):
            head = started.enter_context(RayHead())
        here = started.enter_context(_lanes(wiki))
        with held_to(cpus[:1]):
            there = started.enter_context(_lanes(wiki, ray=head.address))
        process = Contender("process", here, HeddleServer())
        ray = Contender("ray", there, HeddleServer())
        pairs = list(zip(*(asyncio.run(_outcomes(c, asks)) for c in (process, ray)), strict=True))
    same = same_work(process, [ray])
    return {
        "settings": {
            "generations": same.generations,
            "passages": wiki.passages,
            "nodes": dict(there.nodes),
        },
        "rows": [
            {"workflow": ask.workflow, "question": ask.question, "text": one.text, "ray": two.text}
            for ask, (one, two) in zip(asks, pairs, strict=True)
        ],
        "headline": {
            "texts_equal": fmean(one.text == two.text for one, two in pairs),
            "documents_equal": fmean(same_documents(one, two) for one, two in pairs),
            "questions": len(asks),
            "near_ties": same.near_ties,
        },
    }


def same_documents(one: Outcome, other: Outcome) -> bool:
    """Whether all searches found the same passages in the same order, ties in distance apart."""
    return len(one.searches) == len(other.searches) and all(
        mine.node == theirs.node
        and len(mine.passages) == len(theirs.passages)
        and all(map(_is_same_or_tied, mine.passages, theirs.passages))
        for mine, theirs in zip(one.searches, other.searches, strict=True)
    )


def _is_same_or_tied(one: Passage, other: Passage) -> bool:
    return one.chunk_id == other.chunk_id or abs(one.distance - other.distance) <= TIE


def _lanes(wiki: WikiIndex, **settings: object) -> AbstractContextManager[LaneSet]:
    calls, own = SearchCalls.SUBSTAGES, {"dtype": "float32", "kv_cache_bytes": KV_BYTES}
    return lane_set(wiki.directory, None, calls, **own, **settings)


def _questions(wiki: WikiIndex) -> list[str]:
    return [row["question"] for name in (wiki.single, wiki.multihop) for row in rows(name)]


async def _outcomes(contender: Contender, asks: Sequence[Ask]) -> list[Outcome]:
    """Return what a server makes of all asks, which come at once."""
    driver = contender.make(contender.lanes, contender.name, contender.generations)
    assert isinstance(driver, HeddleDriver)

    async def outcome(ask: Ask) -> Outcome:
        searches: list[Search] = []

        def hear(event: RequestEvent) -> None:
            if isinstance(event, Retrieved):
                searches.append(Search(event.node, event.passages))

        workflow = compiled(ask.workflow, ask.nprobe, contender.lanes)
        text = (await driver.ask(ask, workflow, hear)).text
        return Outcome(text, tuple(sorted(searches, key=lambda search: search.node)))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(ask)) for ask in asks]
    await driver.end()
    return [task.result() for task in tasks]
