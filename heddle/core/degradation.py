"""Where a request ran degraded."""

from dataclasses import dataclass
from enum import Enum


class DegradationKind(Enum):
    """What did not go as it was asked for or meant."""

    PASS = "pass"  # an optimizer pass failed, and was left out
    RETRY = "retry"
    SEARCH = "search"
    CHUNK_KV = "chunk_kv"
    QUESTION_AHEAD = "question_ahead"  # it was not run ahead of its prompt
    EMPTY_LIST = "empty_list"
    PIPELINE = "pipeline"  # what began with the first items of a list began again with it whole
    SPECULATION = "speculation"  # a prompt was not computed ahead
    KV_TRANSFER = "kv_transfer"  # a prompt's KV did not all come from the lane that prefilled it
    CORPUS = "corpus"  # a passage that was found is damaged, and was left out
    REMOTE = "remote"  # another server did not do as asked


@dataclass(frozen=True, slots=True)
class Degradation:
    """One way in which a request ran degraded.

    Args:
        kind: what did not go as it was meant.
        reason: what happened instead, and why, in words.
    """

    kind: DegradationKind
    reason: str
