"""The kinds of primitive: the smallest operations that are scheduled. (Teola Table 1)"""

from enum import Enum


class PrimitiveKind(Enum):
    """Teola Table 1, plus Tool (a user's function or a call to the outside world)."""

    EMBEDDING = "embedding"
    INGESTION = "ingestion"
    SEARCHING = "searching"
    RERANKING = "reranking"
    PREFILLING = "prefilling"
    PARTIAL_PREFILLING = "partial_prefilling"
    FULL_PREFILLING = "full_prefilling"
    DECODING = "decoding"
    PARTIAL_DECODING = "partial_decoding"
    CONDITION = "condition"
    AGGREGATE = "aggregate"
    TOOL = "tool"

    @property
    def is_control(self) -> bool:
        """Whether the runtime itself carries it out, without an engine."""
        return self in (PrimitiveKind.CONDITION, PrimitiveKind.AGGREGATE)
