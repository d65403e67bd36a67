"""Run a prompt's question while the passages before it are still looked for.

Source: FusionRAG §3.2 (the question's own prefill); Teola §4.2, pass 3 (a prefill is split where a
    part of its prompt is known before the rest).
Keeps: every primitive and every edge. No primitive waits for those that it adds.
"""

from dataclasses import dataclass, replace

from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import PGraph, data_edges
from heddle.graph.primitive import (
    AskConfig,
    CollectConfig,
    PrefillConfig,
    Primitive,
    Read,
    SearchConfig,
    ShownPart,
)


@dataclass(frozen=True, slots=True)
class AskAhead:
    """Only for requests whose reuse of chunk KV selects by the question alone."""

    name: str = "ask_ahead"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the graph with an Asking beside each prefill that waits for passages."""
        passages = frozenset(
            key
            for primitive in graph.primitives
            if isinstance(primitive.config, SearchConfig | CollectConfig)
            for key in primitive.writes
        )
        found = (_asking(primitive, passages) for primitive in graph.primitives)
        askings = tuple(asking for asking in found if asking is not None)
        if not askings:
            return None
        # First, so that a node's last primitive stays the one that writes its value.
        primitives = (*askings, *graph.primitives)
        return replace(graph, primitives=primitives, edges=graph.edges | data_edges(primitives))

    def reason(self, graph: PGraph) -> str:
        """Return why nothing changes."""
        return "no prompt has a question behind passages that are found in the same region"


def _asking(prefill: Primitive, passages: frozenset[str]) -> Primitive | None:
    """Return what runs a prompt's question ahead of it; None where nothing is to be waited for."""
    config = prefill.config
    if not isinstance(config, PrefillConfig) or config.written is not None:
        return None
    places = [i for i, part in enumerate(config.parts) if _reads(part, passages)]
    if not places or places[-1] + 1 == len(config.parts):
        return None
    question = config.parts[places[-1] + 1 :]
    return Primitive(
        name=prefill.name.replace(".prefilling", ".asking"),
        kind=PrimitiveKind.ASKING,
        node=prefill.node,
        reads=tuple(dict.fromkeys(part.key for part in question if isinstance(part, Read))),
        writes=(),
        config=AskConfig(question, prefill.name, config.is_fenced),
    )


def _reads(part: ShownPart, keys: frozenset[str]) -> bool:
    return isinstance(part, Read) and part.key in keys
