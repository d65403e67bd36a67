"""The five workflows on LangGraph: a node for each step of a StateGraph, no checkpointer."""

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from benchmarks.contenders.framework_defaults import Default, Defaults, blocking
from benchmarks.contenders.hand_written import Client, Program
from benchmarks.contenders.workflow_steps import (
    RETRIEVE_ALL,
    RETRIEVE_ONE,
    STEPS,
    Notes,
    Step,
    gathered,
    notes_of,
)
from heddle.core.passages import Passage

DEFAULTS: Final = (Default.THREADS, Default.ONE_QUERY)
Numbered = tuple[int, tuple[Passage, ...]]


class State(TypedDict, total=False):
    """What the nodes hand on; `found` collects what the branches of a fan-out have found."""

    notes: Notes
    number: int
    found: Annotated[list[Numbered], operator.add]


def programs(defaults: Defaults) -> Mapping[str, Program]:
    """Return the workflows, with these defaults in force."""
    return {name: _program(steps, defaults) for name, steps in STEPS.items()}


def _program(steps: Sequence[Step], defaults: Defaults) -> Program:
    app = _graph(steps, defaults)

    async def run(client: Client, query: str) -> str:
        ended = await app.ainvoke({"notes": notes_of(client, query)})
        answer: str = ended["notes"].answer
        return answer

    return run


def _graph(steps: Sequence[Step], defaults: Defaults) -> Any:
    graph = StateGraph(State)
    splits = Default.ONE_QUERY in defaults and RETRIEVE_ALL in steps
    for step in steps:
        node = _joined if splits and step is RETRIEVE_ALL else _node(step, defaults)
        graph.add_node(step.name, node)
    names = [START, *(step.name for step in steps), END]
    for source, target in itertools.pairwise(names):
        if splits and target == RETRIEVE_ALL.name:
            graph.add_conditional_edges(source, _branches, [RETRIEVE_ONE.name])
        else:
            graph.add_edge(source, target)
    if splits:
        graph.add_node(RETRIEVE_ONE.name, _branch(RETRIEVE_ONE, defaults))
        graph.add_edge(RETRIEVE_ONE.name, RETRIEVE_ALL.name)
    return graph.compile()


def _node(step: Step, defaults: Defaults) -> Callable[[State], Any]:
    if Default.THREADS in defaults:
        run = blocking(step)
        return lambda state: {"notes": run(state["notes"])}

    async def node(state: State) -> State:
        return {"notes": await step.run(state["notes"])}

    return node


def _branches(state: State) -> list[Send]:
    """Return a branch for each text that is searched for."""
    notes = state["notes"]
    return [
        Send(RETRIEVE_ONE.name, {"notes": replace(notes, searches=(text,)), "number": number})
        for number, text in enumerate(notes.searches)
    ]


def _branch(step: Step, defaults: Defaults) -> Callable[[State], Any]:
    if Default.THREADS in defaults:
        run = blocking(step)
        return lambda state: {"found": [(state["number"], run(state["notes"]).docs)]}

    async def node(state: State) -> State:
        return {"found": [(state["number"], (await step.run(state["notes"])).docs)]}

    return node


async def _joined(state: State) -> State:
    found = [docs for _, docs in sorted(state["found"], key=operator.itemgetter(0))]
    return {"notes": gathered(state["notes"], found)}
