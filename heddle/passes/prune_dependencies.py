"""Drop edges that only repeat the template's order, so free primitives can start together.

Source: Teola §4.2, pass 1.
Keeps: every primitive, every data edge, every effect edge.
"""

from dataclasses import dataclass

from heddle.graph.pgraph import EdgeKind, PGraph


@dataclass(frozen=True, slots=True)
class PruneDependencies:
    """Lowering labels each edge, so the rule is one filter."""

    name: str = "prune_dependencies"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the pruned graph, or None when there is nothing to prune."""
        kept = frozenset(edge for edge in graph.edges if edge.kind is not EdgeKind.ORDER)
        return None if kept == graph.edges else graph.with_edges(kept)

    def reason(self, graph: PGraph) -> str:
        """Return why nothing changes."""
        return "no edge only repeats the order of the nodes"
