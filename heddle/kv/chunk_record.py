"""What is known of one chunk's KV, without its tensors."""

import hashlib
from dataclasses import dataclass, field
from enum import Enum

from heddle.core.kv_reuse import PrimedWith
from heddle.kv.chunk_attention import ChunkAttention


class ChunkVariant(Enum):
    """How a chunk's KV was computed."""

    RAW = "raw"  # the chunk attended the tokens before it, as in any prefill
    # It attended what precedes it in its document and its nearest neighbours as well (ADR 20).
    PRIMED = "primed"
    PRIMED_NEAREST = "primed nearest"  # its nearest neighbours alone (FusionRAG §3.1)

    @property
    def is_primed(self) -> bool:
        """Whether it was computed ahead of questions, on top of other chunks."""
        return self is not ChunkVariant.RAW

    @classmethod
    def primed_with(cls, neighbours: PrimedWith) -> "ChunkVariant":
        """Return the variant of KV that is primed with such neighbours."""
        return cls.PRIMED if neighbours is PrimedWith.PRECEDING else cls.PRIMED_NEAREST


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """The name and nature of one stored entry.

    Args:
        key: what the entry is found by (see `PromptKeys`).
        chunk: digest of tenant, model and the chunk's tokens, for primed KV of its collection, too;
            equal chunks share it.
        tokens: length of the chunk, at least 1.
        base: position of its first key, as rotated when it was computed [tokens].
        context: the digests of the other chunks that its values have seen: a primed entry's
            neighbours, or the chunks that stood before it. Empty means canonical: computed right
            after the prompt's prefix.
        sources: the corpus's ids of all these chunks and its own, and of what the KV that was
            reused for them had seen: what is deleted there is forgotten here. Equal text may have
            several ids, so they tell no two records apart.
        attention: what its tokens looked at, where a prompt for Cache-Craft has computed it.
    """

    key: bytes
    chunk: bytes
    tokens: int
    base: int
    variant: ChunkVariant = ChunkVariant.RAW
    context: tuple[bytes, ...] = ()
    sources: tuple[int, ...] = field(default=(), compare=False)
    attention: ChunkAttention | None = field(default=None, compare=False)

    @property
    def alias(self) -> bytes:
        """The content alias: what every entry of this chunk and variant can be found by."""
        return content_alias(self.chunk, self.variant)


def content_alias(chunk: bytes, variant: ChunkVariant) -> bytes:
    """Return the alias that all entries of a chunk and variant share."""
    return digest_of(variant.value.encode(), chunk) if variant.is_primed else chunk


def digest_of(*parts: bytes) -> bytes:
    """Return the sha256 of byte strings, each with its length in front so that none runs over."""
    # One call: a prompt has a digest for each run of its chunks.
    framed = b"".join([len(part).to_bytes(8, "little") + part for part in parts])
    return hashlib.sha256(framed).digest()
