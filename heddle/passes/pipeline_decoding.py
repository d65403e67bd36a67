"""Search for the items of a list while a model still writes it.

Source: Teola §4.2, pass 4 (decoding pipelining).
Deviates: how many parts a Decoding has is known only when it ends, so it stays one primitive; its
    readers begin with the rows that are there, and the rest follows.
Keeps: every value. Rows that the whole list doesn't begin with are searched for again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from heddle.graph.pgraph import Edge, EdgeKind, PGraph
from heddle.graph.primitive import DecodeConfig, EmbedConfig, Primitive, SearchConfig


@dataclass(frozen=True, slots=True)
class PipelineDecoding:
    """Lets Embeddings begin with a list's items, and Searchings with their vectors."""

    name: str = "pipeline_decoding"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the graph with those edges; None where no list is written for a search."""
        lists = {p.writes[0]: p.name for p in graph.primitives if _writes_list(p)}
        items: set[Edge] = set()
        for embedding in graph.primitives:
            found = [lists[key] for key in embedding.reads if key in lists]
            # A second list is shown in each row as a whole.
            if isinstance(embedding.config, EmbedConfig) and len(found) == 1:
                items.add(Edge(found[0], embedding.name, EdgeKind.ITEMS))
                items.update(_to_searches(graph, embedding))
        return replace(graph, edges=graph.edges | items) if items else None

    def reason(self, graph: PGraph) -> str:
        """Return why nothing changes."""
        if any(_writes_list(p) for p in graph.primitives):
            return "no search takes the items of the list that is written"
        return "no generation writes a list for a search"


def _writes_list(primitive: Primitive) -> bool:
    config = primitive.config
    return isinstance(config, DecodeConfig) and config.as_lines and not config.is_round


def _to_searches(graph: PGraph, embedding: Primitive) -> Iterator[Edge]:
    for search in graph.primitives:
        config = search.config
        if not isinstance(config, SearchConfig) or config.vectors not in embedding.writes:
            continue
        # A search by words reads the list itself, and a Matching needs the documents' vectors, too.
        if not config.words and config.within is None:
            yield Edge(embedding.name, search.name, EdgeKind.ITEMS)
