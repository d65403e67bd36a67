"""Let what follows a long Embedding begin with its first micro-batch.

Source: Teola §4.2, pass 2 (stage decomposition).
Deviates: how many rows a stage has is known only when it runs, so it stays one primitive. The
    runtime sends its rows in micro-batches of the size that the lane is measured to be efficient
    at, each of its readers goes on with the rows that are there, and the Aggregate of the paper is
    where the parts are joined to one value.
Keeps: every value, and the order of its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from heddle.graph.pgraph import Edge, EdgeKind, PGraph
from heddle.graph.primitive import (
    EmbedConfig,
    IngestConfig,
    Primitive,
    Read,
    SearchConfig,
    ToolConfig,
)


@dataclass(frozen=True, slots=True)
class DecomposeStages:
    """Only for what may have many rows: the list of a tool, and texts that are to be stored."""

    name: str = "decompose_stages"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the graph with edges for parts of a stage; None where no stage has many rows."""
        lists = {p.writes[0] for p in graph.primitives if isinstance(p.config, ToolConfig)}
        items = {
            edge
            for embedding in graph.primitives
            if _embeds_a_slot(embedding)
            for edge in _to_readers(graph, embedding, has_list=embedding.reads[0] in lists)
        }
        return replace(graph, edges=graph.edges | items) if items else None

    def reason(self, graph: PGraph) -> str:
        """Return why nothing changes."""
        return "no list of a tool is searched for, and no texts are stored"


def _embeds_a_slot(primitive: Primitive) -> bool:
    config = primitive.config
    if not isinstance(config, EmbedConfig) or len(config.parts) != 1:
        return False
    [part] = config.parts
    return isinstance(part, Read) and part.item is None


def _to_readers(graph: PGraph, embedding: Primitive, *, has_list: bool) -> Iterator[Edge]:
    for reader in graph.primitives:
        config = reader.config
        is_stored = isinstance(config, IngestConfig) and config.vectors in embedding.writes
        is_searched = (
            has_list
            and isinstance(config, SearchConfig)
            and config.vectors in embedding.writes
            and not config.words  # a search by words reads the list itself
        )
        if is_stored or is_searched:
            yield Edge(embedding.name, reader.name, EdgeKind.ITEMS)
