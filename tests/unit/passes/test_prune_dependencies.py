"""Pruning drops edges that carry nothing, and only those. (Teola §4.2, pass 1)"""

from hypothesis import given
from hypothesis import strategies as st

from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind, PGraph, depths
from heddle.graph.primitive import EmbedConfig, Primitive
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.prune_dependencies import PruneDependencies
from heddle.workflow.ragraph import END, START, RAGraph


def primitive(name, reads=(), writes=()):
    return Primitive(name, PrimitiveKind.EMBEDDING, name, reads, writes, EmbedConfig(()))


def graph_of(*edges):
    names = sorted({name for edge in edges for name in (edge.producer, edge.consumer)})
    return PGraph(tuple(map(primitive, names)), frozenset(edges))


def lowered(graph):
    workflow = graph.compile()
    return lower_region(workflow, workflow.entries, initial_scope({"query": ""})).graph


def test_only_order_edges_go():
    kept = {Edge("a", "b", EdgeKind.DATA), Edge("a", "c", EdgeKind.EFFECT)}
    pruned = PruneDependencies().apply(graph_of(*kept, Edge("b", "c", EdgeKind.ORDER)))
    assert pruned is not None
    assert pruned.edges == kept


def test_nothing_to_prune_is_no_change():
    assert PruneDependencies().apply(graph_of(Edge("a", "b", EdgeKind.DATA))) is None


def test_a_search_after_an_ingestion_still_waits():
    graph = graph_of(Edge("ingestion", "searching", EdgeKind.EFFECT))
    assert PruneDependencies().apply(graph) is None


def test_independent_retrievals_of_a_chain_start_together():
    drawn = RAGraph("chain").add_retrieval("a", output="docs_a")
    drawn.add_retrieval("b", output="docs_b")
    drawn.add_generation("answer", "Answer from {docs_a} {docs_b}")
    drawn.add_edge(START, "a").add_edge("a", "b").add_edge("b", "answer").add_edge("answer", END)
    before = lowered(drawn)
    after = PruneDependencies().apply(before)
    assert after is not None
    verify(after)
    assert depths(before)["a.embedding@0"] == depths(before)["b.embedding@0"] + 2
    assert depths(after)["a.embedding@0"] == depths(after)["b.embedding@0"]


def test_a_tool_keeps_its_place():
    drawn = RAGraph("tool").add_tool("log", print, ["query"], "logged").add_retrieval("find")
    drawn.add_edge(START, "log").add_edge("log", "find").add_edge("find", END)
    assert PruneDependencies().apply(lowered(drawn)) is None


edges = st.builds(
    lambda pair, kind: Edge(f"p{min(pair)}", f"p{max(pair)}", kind),
    st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] != pair[1]),
    st.sampled_from(EdgeKind),
)


@given(st.frozensets(edges, min_size=1, max_size=15))
def test_it_keeps_what_carries_something_and_is_done_after_one_run(drawn):
    graph = graph_of(*drawn)
    pruned = PruneDependencies().apply(graph)
    wanted = {edge for edge in drawn if edge.kind is not EdgeKind.ORDER}
    if pruned is None:
        assert graph.edges == wanted
    else:
        assert pruned.edges == wanted
        assert pruned.primitives == graph.primitives
        assert PruneDependencies().apply(pruned) is None
