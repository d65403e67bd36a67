"""An optimizer pass of your own: texts that are searched for twice are embedded once."""

import sys
from dataclasses import dataclass, replace

from heddle import GraphPass, RAGraph, Server
from heddle.graph.pgraph import EdgeKind, PGraph, data_edges
from heddle.graph.primitive import EmbedConfig, Primitive


@dataclass(frozen=True)
class ShareEmbeddings(GraphPass):
    """Gives the primitives that embed the same text one vector.

    Keeps: every key, as the primitive that stays writes the others' too, and every vector.
    """

    name: str = "share_embeddings"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the graph with one Embedding for each text; None where all differ."""
        kept: dict[EmbedConfig, Primitive] = {}
        gone: dict[str, str] = {}  # who does its work now
        for primitive in graph.primitives:
            config = primitive.config
            if not isinstance(config, EmbedConfig):
                continue
            first = kept.setdefault(config, primitive)
            if first is not primitive:
                gone[primitive.name] = first.name
                kept[config] = replace(first, writes=(*first.writes, *primitive.writes))
        if not gone:
            return None
        names = {primitive.name: primitive for primitive in kept.values()}
        stay = [p for p in graph.primitives if p.name not in gone]
        primitives = tuple(names.get(p.name, p) for p in stay)
        others = {
            replace(e, producer=gone.get(e.producer, e.producer))
            for e in graph.edges
            if e.consumer not in gone and e.kind is not EdgeKind.DATA
        }
        return replace(graph, primitives=primitives, edges=data_edges(primitives) | others)


def near_and_far() -> RAGraph:
    """Return a workflow that searches for the question twice: among mills, and everywhere."""
    graph = RAGraph("near_and_far")
    graph.add_retrieval("narrow", topk=1, output="best")
    graph.add_retrieval("wide", topk=3, output="more")
    graph.add_generation(
        "answer", "Answer the question from the notes.\n\n{best}{more}Question: {query}"
    )
    return graph


def main(corpus: str) -> None:
    """Answer with the pass and without it."""
    question = "In which year was Oak Mill founded?"
    with Server(generator="reader", index=corpus, passes=[ShareEmbeddings()]) as server:
        app = server.app(near_and_far())
        for optimizations in ("off", "exact"):
            answer = app.invoke(question, optimizations=optimizations)
            embeddings = [s for s in answer.receipt.spans if s.kind.value == "embedding"]
            print(f"{optimizations}: {answer.text}, {len(embeddings)} embedded")


if __name__ == "__main__":
    main(sys.argv[1])
