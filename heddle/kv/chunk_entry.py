"""A chunk's KV: what is known of it, and the tensors."""

from dataclasses import dataclass

from heddle.core.errors import InternalError
from heddle.kv.chunk_codec import EncodedKv, decode, encode
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.kv_encoding import KvEncoding
from heddle.kv.page_store import KvBlock


@dataclass(frozen=True, slots=True, eq=False)
class ChunkEntry:
    """The KV of one chunk, keys rotated to positions `record.base` and on.

    Shapes: block.keys and block.values [layers, kv_heads, record.tokens, head_dim].
    Args:
        error: what storing it has lost so far, as relative L2 error; 0 where it was computed.
    """

    record: ChunkRecord
    block: KvBlock
    error: float = 0.0

    def __post_init__(self) -> None:
        if self.block.tokens != self.record.tokens or self.record.tokens == 0:
            raise InternalError(
                f"an entry of {self.record.tokens} tokens was given KV of {self.block.tokens}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class StoredChunk:
    """A chunk's KV in the form in which memory and files hold it."""

    record: ChunkRecord
    kv: EncodedKv

    @classmethod
    def of(cls, entry: ChunkEntry, encoding: KvEncoding) -> "StoredChunk":
        """Copy an entry into its stored form.

        Raises:
            InputError: the KV holds NaN or infinity.
        """
        return cls(entry.record, encode(entry.block, encoding))

    def pinned(self) -> "StoredChunk":
        """Return the same in page-locked memory; needs a CUDA device."""
        return StoredChunk(self.record, self.kv.pinned())

    def entry(self) -> ChunkEntry:
        """Return the entry, ready to be read; tensors that need no decoding are shared."""
        return ChunkEntry(self.record, decode(self.kv), self.kv.error)
