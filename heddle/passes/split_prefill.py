"""Compute the first passages of a prompt while the searches for the others still run.

Source: Teola §4.2, pass 3 (prefilling split).
Deviates: a Partial Prefilling is no primitive of its own. The part that is known goes to the engine
    in the background and stays in its prefix index, whose pages go before those of any prompt
    under way; the whole prompt finds there what is still there.
Keeps: every prompt, token for token.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from heddle.graph.pgraph import Edge, EdgeKind, PGraph
from heddle.graph.primitive import CollectConfig, PrefillConfig, Read, SearchConfig


@dataclass(frozen=True, slots=True)
class SplitPrefill:
    """Only for passages of several queries one after another: those of the first come first."""

    name: str = "split_prefill"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the graph with prompts that may begin with some of their passages."""
        growing = {e.consumer for e in graph.edges if e.kind is EdgeKind.ITEMS}
        hits = {
            p.writes[0]: p.name
            for p in graph.primitives
            if isinstance(p.config, SearchConfig) and p.config.each and p.name in growing
        }
        items = frozenset(_edges(graph, hits))
        return replace(graph, edges=graph.edges | items) if items else None

    def reason(self, graph: PGraph) -> str:
        """Return why nothing changes."""
        return "no prompt shows passages that are found for one item of a list after another"


def _edges(graph: PGraph, hits: dict[str, str]) -> Iterator[Edge]:
    for collect in graph.primitives:
        if not isinstance(collect.config, CollectConfig):
            continue
        found = collect.config.parts[-1].key  # before it stands what earlier turns have found
        for prefill in graph.primitives if found in hits else ():
            config = prefill.config
            if isinstance(config, PrefillConfig) and Read(collect.writes[0]) in config.parts:
                yield Edge(hits[found], collect.name, EdgeKind.ITEMS)
                yield Edge(collect.name, prefill.name, EdgeKind.ITEMS)
