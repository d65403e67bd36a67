"""GET /v1/explain: a workflow's regions, and what each optimizer pass makes of them."""

from heddle.app.explain.explanation import Explainer, Explanation, RegionReport
from heddle.app.explain.pass_effects import CycleEffect, PassEffect
from heddle.app.server import Server
from heddle.graph.pgraph import PGraph, topological_order
from heddle.server.wire import Json
from heddle.workflow.workflow import Workflow


def explained(server: Server, workflow: Workflow) -> Json:
    """Return a workflow as the server's passes treat it; may wait for the runtime's thread.

    A region that a request has opened is shown as the server lowered it. Passes that a program
    gave its Server are left out: `heddle serve` has none.

    Raises:
        InternalError: a pass breaks a graph.
        HeddleError: the server is closed.
    """
    opened = server.lowered_regions(workflow.name)
    counts = server.state().cycle_passes
    explainer = Explainer.of(server.config, server.clock)
    return explanation_json(explainer.explain(workflow, None, opened, counts))


def explanation_json(explanation: Explanation) -> Json:
    """Return an explanation: for each region the graph before and behind every pass that acts."""
    return {
        "workflow": explanation.workflow,
        "is_function": explanation.is_function,
        "is_cut": explanation.is_cut,
        "has_passes": explanation.has_passes,
        "regions": [_region(region) for region in explanation.regions],
        "cycle_passes": [_cycle_pass(effect) for effect in explanation.cycle_passes],
    }


def graph_json(graph: PGraph) -> Json:
    """Return a graph's primitives, producers first, and its edges.

    A primitive's `column` is one behind that of its last producer.
    """
    columns: dict[str, int] = {}
    for name in topological_order(graph):
        before = [columns[edge.producer] for edge in graph.edges if edge.consumer == name]
        columns[name] = 1 + max(before, default=-1)
    by_name = graph.by_name()
    edges = sorted((edge.producer, edge.consumer, edge.kind.value) for edge in graph.edges)
    return {
        "primitives": [
            {
                "name": name,
                "node": by_name[name].node,
                "kind": by_name[name].kind.value,
                "column": column,
            }
            for name, column in columns.items()
        ],
        "edges": [{"from": one, "to": other, "kind": kind} for one, other, kind in edges],
    }


def _region(region: RegionReport) -> Json:
    return {
        "when": region.when,
        "graph": graph_json(region.graph),
        "passes": [_pass(effect) for effect in region.effects],
    }


def _pass(effect: PassEffect) -> Json:
    return {
        "name": effect.name,
        "acted": effect.graph is not None,
        "words": effect.words,
        "graph": None if effect.graph is None else graph_json(effect.graph),
    }


def _cycle_pass(effect: CycleEffect) -> Json:
    return {"name": effect.name, "words": effect.words}
