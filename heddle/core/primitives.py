"""The kinds of primitive: the smallest operations that are scheduled. (Teola Table 1)"""

from enum import Enum


class PrimitiveKind(Enum):
    """Teola Table 1, plus Tool (a user's function, a call to the outside world) and five more.

    Extracting quotes an answer from passages. Matching finds the nearest of a request's own
    passages (ADR 34). Priming computes a chunk's KV to be stored, on top of
    its neighbours' (FusionRAG §3.1). Asking runs a prompt's question while its passages are looked
    for (FusionRAG §3.2). A Lookup looks for an answer that was given before (ADR 44).

    Teola's partial kinds are not among them: which parts of a text or a prompt there are is known
    only as the request runs (`passes/pipeline_decoding.py`, `passes/split_prefill.py`).
    """

    EMBEDDING = "embedding"
    INGESTION = "ingestion"
    PRIMING = "priming"
    SEARCHING = "searching"
    MATCHING = "matching"
    RERANKING = "reranking"
    EXTRACTING = "extracting"
    ASKING = "asking"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    CONDITION = "condition"
    AGGREGATE = "aggregate"
    TOOL = "tool"
    LOOKUP = "lookup"

    # There is one object for each kind, so nothing is gained from Enum's own hash, written in
    # Python: sets and tables of kinds are asked for every primitive.
    __hash__ = object.__hash__

    @property
    def is_control(self) -> bool:
        """Whether the runtime itself carries it out, without an engine."""
        return self in (PrimitiveKind.CONDITION, PrimitiveKind.AGGREGATE, PrimitiveKind.LOOKUP)
