"""A graph as text and as a Mermaid diagram. Both are stable: equal graphs, equal output."""

from heddle.graph.pgraph import EdgeKind, PGraph, depths, topological_order

ARROWS = {
    EdgeKind.DATA: "-->",
    EdgeKind.EFFECT: "-.effect.->",
    EdgeKind.ITEMS: "-.items.->",
    EdgeKind.ORDER: "-.order.->",
}


def render_text(graph: PGraph) -> str:
    """Return one line a primitive, producers first, with its depth and its incoming edges."""
    depth = depths(graph)
    lines = []
    for name in topological_order(graph):
        waits = sorted(f"{e.producer} ({e.kind.value})" for e in graph.edges if e.consumer == name)
        lines.append(f"{name}  depth {depth[name]}" + (f"  <- {', '.join(waits)}" if waits else ""))
    return "\n".join(lines)


def render_mermaid(graph: PGraph) -> str:
    """Return a Mermaid flowchart of the graph."""
    order = topological_order(graph)
    ids = {name: f"p{index}" for index, name in enumerate(order)}
    kinds = {p.name: p.kind.value for p in graph.primitives}
    lines = ["flowchart LR"]
    lines += [f'    {ids[name]}["{kinds[name]}<br/>{name}"]' for name in order]
    edges = sorted(graph.edges, key=lambda e: (order.index(e.producer), order.index(e.consumer)))
    lines += [f"    {ids[e.producer]} {ARROWS[e.kind]} {ids[e.consumer]}" for e in edges]
    return "\n".join(lines)
