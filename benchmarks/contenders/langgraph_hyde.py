"""LangGraph: four async nodes on a StateGraph, no checkpointer."""

import itertools
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from benchmarks.contenders.fake_engines import answer_prompt, embed, generate, measure, search


class State(TypedDict, total=False):
    """What the nodes hand on."""

    query: str
    hypothesis: str
    vector: list[float]
    docs: tuple[dict[str, object], ...]
    answer: str


async def imagine(state: State) -> dict[str, Any]:
    """Write the hypothesis."""
    return {"hypothesis": await generate(f"Write a passage for {state['query']}")}


async def embed_node(state: State) -> dict[str, Any]:
    """Embed it."""
    return {"vector": await embed(state["hypothesis"])}


async def search_node(state: State) -> dict[str, Any]:
    """Search."""
    return {"docs": await search(state["vector"])}


async def answer(state: State) -> dict[str, Any]:
    """Answer."""
    return {"answer": await generate(answer_prompt(state["query"], state["docs"]))}


def build() -> Any:
    """Return the compiled graph."""
    graph = StateGraph(State)
    nodes = {"imagine": imagine, "embed": embed_node, "search": search_node, "answer_it": answer}
    for name, node in nodes.items():
        graph.add_node(name, node)
    order = [START, *nodes, END]
    for source, target in itertools.pairwise(order):
        graph.add_edge(source, target)
    return graph.compile()


if __name__ == "__main__":
    app = build()
    measure(lambda query: app.ainvoke({"query": query}))
