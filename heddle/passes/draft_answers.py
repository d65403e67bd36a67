"""Check what a loop's generation has written a turn before while it is written again.

Another prompt, with more passages in it, often gives the same text. The engine compares it with
the earlier one, several tokens a step, and goes on alone where the two part (speculative decoding,
Leviathan et al. 2023; the draft costs no model here).
Keeps: every text. A drafted token counts only where the model itself chooses it.
"""

from dataclasses import dataclass, replace

from heddle.graph.pgraph import PGraph
from heddle.graph.primitive import DecodeConfig, Primitive


@dataclass(frozen=True, slots=True)
class DraftAnswers:
    """Marks the decodes of a loop's later turns: before them their nodes have written nothing."""

    name: str = "draft_answers"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the graph with those decodes marked; None where there are none."""
        primitives = tuple(map(_marked, graph.primitives))
        return None if primitives == graph.primitives else replace(graph, primitives=primitives)

    def reason(self, graph: PGraph) -> str:
        """Return why nothing changes."""
        return "no text here is written again in a later turn of a loop"


def _marked(primitive: Primitive) -> Primitive:
    config = primitive.config
    if not isinstance(config, DecodeConfig) or config.is_round or primitive.turn == 0:
        return primitive
    return replace(primitive, config=replace(config, has_draft=True))
