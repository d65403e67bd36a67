"""Whether searches of an index could stop early at all, by its size alone. Pure."""

from heddle.engines.vector.files.index_kind import IndexKind, nprobe_for
from heddle.engines.vector.files.manifest import IndexManifest
from heddle.engines.vector.ivf.early_stop.looks import (
    LOOKS_PER_DOUBLING,
    lists_per_look,
    looks_at,
)
from heddle.engines.vector.ivf.ivf_kind import IVF_KINDS


def why_never(kind: IndexKind, count: int, nlist: int, nprobe: int | None) -> str:
    """Return why a promised recall saves nothing on an index; "" where it may.

    Args:
        kind: of the index.
        count: its vectors.
        nlist: its lists.
        nprobe: lists that a search plans; None = as many as the kind wants.
    """
    planned = min(nprobe or nprobe_for(kind, nlist), nlist)
    vectors = count / max(1, nlist)
    [per_look] = [k.vectors_per_look for k in IVF_KINDS.values() if k.index_kind is kind]
    if len(looks_at(planned, lists_per_look(per_look, vectors), LOOKS_PER_DOUBLING)) > 1:
        return ""
    return (
        f"a promised recall saves nothing here: a search scans {planned} lists of the {kind.value} "
        f"index, about {planned * vectors:,.0f} vectors, in less time than it takes to ask whether "
        "it may stop; scan fewer with --nprobe, or index with --index-kind exact"
    )


def why_never_of(manifest: IndexManifest, nprobe: int | None) -> str:
    """Return `why_never` of an index file."""
    return why_never(IndexKind(manifest.kind), manifest.count, manifest.nlist, nprobe)
