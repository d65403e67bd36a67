"""Graphs of a loop's turns, and of the rounds of one text: what passes of loops must tell apart."""

from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.rounds import lower_round
from heddle.lowering.scope import initial_scope
from heddle.workflow.presets import irg
from heddle.workflow.ragraph import END, START, RAGraph


def turns_of_irg(turns):
    """Return the graph of each turn."""
    workflow = irg(turns=turns).compile()
    scope, graphs = initial_scope({"query": ""}), []
    for _ in range(turns):
        region = lower_region(workflow, workflow.entries, scope)
        graphs.append(region.graph)
        scope = region.scope
    return graphs


def round_in_a_loop():
    """Return the graph of a round of a text that is written in a loop's second turn."""
    graph = RAGraph("rounds")
    graph.add_retrieval("find", topk=2, output="docs")
    graph.add_generation("write", "Write {docs}.", retrieve_every=4, query="{answer}")
    graph.add_edge(START, "find").add_edge("find", "write").add_edge("write", lambda state: END)
    workflow = graph.compile()
    scope = lower_region(workflow, workflow.entries, initial_scope({"query": ""})).scope
    region = lower_region(workflow, workflow.entries, scope)
    (rounds,) = (p for p in region.graph.primitives if p.name == "write.rounds@1")
    return lower_round(rounds, 0, 1)


def marked_by(graph_pass, graph, kind, mark):
    """Return the names of the primitives that a pass marks; it changes no edge.

    Args:
        graph_pass: the pass.
        graph: the one to mark.
        kind: of the configs that have the mark.
        mark: the field's name.
    """
    rewritten = graph_pass.apply(graph)
    if rewritten is None:
        return []
    verify(rewritten)
    assert rewritten.edges == graph.edges
    found = [p for p in rewritten.primitives if isinstance(p.config, kind)]
    return [p.name for p in found if getattr(p.config, mark)]
