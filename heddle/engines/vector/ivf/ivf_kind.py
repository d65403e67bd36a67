"""The kinds of FAISS index that are searched in steps, and how each goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from heddle.engines.vector.files.index_kind import IndexKind


class Stepping(Enum):
    """How a search of an index goes on after a sub-stage."""

    SHARED = "shared"  # our kernel goes on with the heaps; queries share a list that is read
    CARRY = "carry"  # FAISS goes on with the heaps of the sub-stage before
    MERGE = "merge"  # each sub-stage finds its own nearest, which are merged


@dataclass(frozen=True, slots=True)
class IvfKind:
    """One kind of inverted lists.

    `vectors_per_look`: about how many vectors are scanned in the time it takes to ask whether a
    search may stop.
    """

    index_kind: IndexKind
    stepping: Stepping
    vectors_per_look: int


IVF_KINDS: Final[Mapping[str, IvfKind]] = MappingProxyType(
    {
        "IndexIVFFlat": IvfKind(IndexKind.FLAT, Stepping.SHARED, 2_000),
        "IndexIVFFlatPanorama": IvfKind(IndexKind.PANORAMA, Stepping.CARRY, 4_000),
        "IndexIVFPQFastScan": IvfKind(IndexKind.PQ, Stepping.MERGE, 60_000),
    }
)
"""By FAISS's class. Other classes return other results in steps without an error, or were never
compared; a self-test holds each index to its kind when it is opened."""


def kind_of(ivf: Any) -> IvfKind | None:  # noqa: ANN401 - FAISS's own
    """Return the kind of a faiss.IndexIVF, or None where it can't be searched in steps."""
    return IVF_KINDS.get(type(ivf).__name__)
