"""The kinds of primitive: the smallest operations that are scheduled. (Teola Table 1)"""

from enum import Enum
from typing import Final


class PrimitiveKind(Enum):
    """Teola Table 1, plus Tool (a user's function, a call to the outside world) and three more.

    Extracting quotes an answer from passages. Priming computes a chunk's KV to be stored, on top of
    its neighbours' (FusionRAG §3.1). Asking runs a prompt's question while its passages are looked
    for (FusionRAG §3.2).

    The kinds in `UNBUILT_KINDS` have a name only: no component is lowered to them yet, and no
    engine takes them.
    """

    EMBEDDING = "embedding"
    INGESTION = "ingestion"
    PRIMING = "priming"
    SEARCHING = "searching"
    RERANKING = "reranking"
    EXTRACTING = "extracting"
    ASKING = "asking"
    PREFILLING = "prefilling"
    PARTIAL_PREFILLING = "partial_prefilling"
    FULL_PREFILLING = "full_prefilling"
    DECODING = "decoding"
    CONDITION = "condition"
    AGGREGATE = "aggregate"
    TOOL = "tool"

    # There is one object for each kind, so nothing is gained from Enum's own hash, written in
    # Python: sets and tables of kinds are asked for every primitive.
    __hash__ = object.__hash__

    @property
    def is_control(self) -> bool:
        """Whether the runtime itself carries it out, without an engine."""
        return self in (PrimitiveKind.CONDITION, PrimitiveKind.AGGREGATE)


# Named here for what is still to be built on them: the pass `split_prefill` (Teola §4.2).
UNBUILT_KINDS: Final = frozenset(
    {
        PrimitiveKind.PARTIAL_PREFILLING,
        PrimitiveKind.FULL_PREFILLING,
    }
)
