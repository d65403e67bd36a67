"""Which neighbours a chunk's KV is primed with: the passages that it is computed on top of."""

from collections.abc import Iterable

from heddle.core.passages import Passage


def neighbours_of(chunk: Passage, near: Iterable[Passage], count_max: int) -> tuple[Passage, ...]:
    """Return the first of some passages that a chunk may be primed with, each text once.

    The chunk itself is left out, and so is what belongs to another tenant or collection: the
    chunk's KV would hold its content. (FusionRAG §3.1)
    """
    owner = (chunk.tenant, chunk.collection)
    by_text = {chunk.render(): chunk}
    for passage in near:
        if (passage.tenant, passage.collection) == owner:
            by_text.setdefault(passage.render(), passage)
    return tuple(by_text.values())[1 : 1 + count_max]
