"""Workflows of random shape: drawn graphs, and functions that branch on what was written."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from heddle.workflow.calls import Calls
from heddle.workflow.deferred import Deferred
from heddle.workflow.function import WorkflowFunction, as_workflow
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

NODES_MAX: Final = 6
CALLS_MAX: Final = 7  # of a random function; its turns are calls, too


@dataclass(slots=True)
class _Slots:
    """What a graph's next node may read, by kind. Mutates: each node adds its own."""

    texts: list[str] = field(default_factory=lambda: ["query"])
    lists: list[str] = field(default_factory=list)
    passages: list[str] = field(default_factory=list)


def random_graph(draws: random.Random) -> Workflow:
    """Return searches and generations, each of which reads some of what stands before it."""
    graph, slots = RAGraph("random_graph"), _Slots()
    for number in range(draws.randint(1, NODES_MAX)):
        if draws.random() < 0.5:
            _add_retrieval(graph, draws, slots, f"find{number}")
        else:
            _add_generation(graph, draws, slots, f"write{number}")
    read = [*slots.texts[-2:], *slots.lists[-1:], *slots.passages]
    prompt = "Answer " + " ".join(f"{{{slot}}}" for slot in read)
    graph.add_generation("answer", prompt, max_tokens=draws.randint(1, 6))
    return graph.compile()


def _add_retrieval(graph: RAGraph, draws: random.Random, slots: _Slots, name: str) -> None:
    is_each = bool(slots.lists) and draws.random() < 0.5
    read = draws.choice(slots.lists if is_each else slots.texts)
    graph.add_retrieval(
        name,
        query=f"{{query}} {{{read}}}" if draws.random() < 0.5 else read,
        topk=draws.randint(1, 3),
        nprobe=draws.choice((None, 2, 8)),
        collect=is_each and draws.random() < 0.5,
        output=name,
    )
    slots.passages.append(name)


def _add_generation(graph: RAGraph, draws: random.Random, slots: _Slots, name: str) -> None:
    readable = [*slots.texts, *slots.lists, *slots.passages]
    read = draws.sample(readable, draws.randint(1, min(3, len(readable))))
    is_list = draws.random() < 0.4
    graph.add_generation(
        name,
        f"Write {name} " + " ".join(f"{{{slot}}}" for slot in read),
        output=name,
        max_tokens=draws.randint(1, 10),
        parse="lines" if is_list else "text",
    )
    (slots.lists if is_list else slots.texts).append(name)


def random_function(draws: random.Random) -> Workflow:
    """Return a function that searches and writes in turns, and looks at some of its texts."""
    plan = [(draws.randrange(4), draws.randint(1, 6)) for _ in range(draws.randint(1, CALLS_MAX))]

    @as_workflow
    async def random_function(rag: Calls, query: Deferred) -> Deferred:
        text, docs = query, None
        for turn, (kind, size) in enumerate(plan):
            if kind == 0:
                docs = await rag.retrieve(f"{query} {text}", topk=1 + size % 3, name=f"find{turn}")
            elif kind == 1:
                text = await rag.generate(f"Write {text}", max_tokens=size, name="write")
            elif kind == 2 and len(str(text)) % 2:
                items = await rag.generate(
                    f"List {query}", max_tokens=9, parse="lines", name="list"
                )
                docs = await rag.retrieve(f"{items}", topk=1, collect=True, name=f"each{turn}")
            elif kind == 3:
                drafts = [rag.generate(f"Draft {i} {text}", max_tokens=size) for i in range(2)]
                text = await rag.generate(" ".join(_shown(drafts)), max_tokens=size, name="join")
        shown = query if docs is None else docs
        return await rag.generate(f"Answer {text} {shown}", max_tokens=4, name="answer")

    function: WorkflowFunction = random_function
    return function.compile()


def _shown(values: list[Deferred]) -> Iterator[str]:
    return (f"{value}" for value in values)
