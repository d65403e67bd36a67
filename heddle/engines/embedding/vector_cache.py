"""Vectors of texts that were embedded before, the least recently used forgotten first."""

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ENTRY_BYTES = 300  # of keys, links and the array's header, beside its values


class CachedVector(NamedTuple):
    """A text's vector [d] float32, its tokens, and whether it was cut, or read in windows."""

    values: NDArray[np.float32]
    tokens: int
    is_truncated: bool
    is_windowed: bool = False


@dataclass(slots=True)
class VectorCache:
    """A bounded cache. A hit shows that somebody has embedded the text: tenants share nothing.

    Args:
        model: the encoder's name, which stands for its weights.
        dtype: the encoder's number type; vectors of two types differ a little.
        bytes_max: memory that it may take; 0 = nothing is kept.

    Mutates: `get` marks an entry as used; `put` adds one and forgets the oldest.
    """

    model: str
    dtype: str
    bytes_max: int
    bytes_used: int = 0
    hits: int = 0
    misses: int = 0
    _kept: OrderedDict[bytes, CachedVector] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        """Return how many vectors are kept."""
        return len(self._kept)

    def get(self, text: str, tenant: str) -> CachedVector | None:
        """Return a text's vector, None = not kept."""
        if not self.bytes_max:
            return None
        key = self._key(text, tenant)
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return found

    def put(self, text: str, tenant: str, vector: CachedVector) -> None:
        """Keep a vector, as a copy."""
        size = ENTRY_BYTES + vector.values.nbytes
        if size > self.bytes_max:
            return
        key = self._key(text, tenant)
        if key not in self._kept:
            self.bytes_used += size
        self._kept[key] = vector._replace(values=vector.values.copy())
        self._kept.move_to_end(key)
        while self.bytes_used > self.bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self.bytes_used -= ENTRY_BYTES + oldest.values.nbytes

    def _key(self, text: str, tenant: str) -> bytes:
        """Return a digest of everything that a vector depends on, and of whose it is."""
        digest = blake2b(digest_size=16)
        for part in (self.model, self.dtype, tenant, text):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8))  # no two lists of parts read the same
            digest.update(encoded)
        return digest.digest()
