"""Don't write again what the same prompt has made a node write a turn before.

Keeps: every answer. Equal prompts with equal sampling, seed included, give equal texts.
"""

from dataclasses import dataclass, replace

from heddle.graph.pgraph import PGraph
from heddle.graph.primitive import DecodeConfig, PrefillConfig, Primitive


@dataclass(frozen=True, slots=True)
class SkipRepeats:
    """Marks the prompts of a loop's later turns: only there can one come again."""

    name: str = "skip_repeats"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the graph with those prompts marked; None where there are none."""
        rounds = {
            p.config.prefill
            for p in graph.primitives
            if isinstance(p.config, DecodeConfig) and p.config.is_round
        }
        primitives = tuple(_marked(p, rounds) for p in graph.primitives)
        return None if primitives == graph.primitives else replace(graph, primitives=primitives)

    def reason(self, graph: PGraph) -> str:
        """Return why nothing changes."""
        return "no prompt here belongs to a later turn of a loop"


def _marked(primitive: Primitive, rounds: set[str]) -> Primitive:
    config = primitive.config
    if not isinstance(config, PrefillConfig) or not rounds.isdisjoint(primitive.writes):
        return primitive
    if primitive.turn == 0:
        return primitive
    return replace(primitive, config=replace(config, may_repeat=True))
