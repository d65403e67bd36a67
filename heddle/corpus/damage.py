"""What is known to be damaged in a corpus: chunks that differ from their checksums."""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.core.errors import StorageError

log = logging.getLogger(__name__)
CHUNKS_MAX: Final = 1000  # remembered and named in the log; a corpus with more is lost anyway


@dataclass(frozen=True, slots=True)
class DamagedChunk:
    """A chunk whose `part`, "text" or "vector", differs from its checksum, and its document."""

    chunk_id: int
    part: str
    document_id: str
    tenant: str
    source: str = ""

    def __str__(self) -> str:
        """Return it as the log names it."""
        owner = f" of the tenant {self.tenant!a}" if self.tenant else ""
        document = f"the document {self.document_id!a}{owner}"
        return f"the stored {self.part} of chunk {self.chunk_id} of {document} is damaged"


class DamageLog:
    """The damaged chunks that reads have met, each logged once. Thread-safe.

    Args:
        corpus: what people call it.
        chunks_max: chunks that are remembered; of others the log says only that there are some.
    """

    def __init__(self, corpus: str, chunks_max: int = CHUNKS_MAX) -> None:
        self._corpus = corpus
        self._chunks_max = chunks_max
        self._lock = threading.Lock()
        self._found: dict[int, DamagedChunk] = {}
        self._is_full = False

    def note(self, chunks: Iterable[DamagedChunk]) -> None:
        """Remember and log those that are new."""
        for chunk in chunks:
            self._note(chunk)

    def _note(self, chunk: DamagedChunk) -> None:
        with self._lock:
            if chunk.chunk_id in self._found or self._is_full:
                return
            self._is_full = len(self._found) == self._chunks_max
            if not self._is_full:
                self._found[chunk.chunk_id] = chunk
        if self._is_full:
            log.error("%s: more than %d chunks are damaged", self._corpus, self._chunks_max)
        else:
            log.error("%s: %s; %s", self._corpus, chunk, remedy(self._corpus))

    def settle(self, chunk_ids: Iterable[int]) -> None:
        """Forget chunks that are sound again or gone."""
        with self._lock:
            for chunk_id in chunk_ids:
                self._found.pop(chunk_id, None)
            self._is_full = self._is_full and len(self._found) == self._chunks_max

    def found(self) -> tuple[DamagedChunk, ...]:
        """Return what is known to be damaged."""
        with self._lock:
            return tuple(self._found.values())

    @property
    def count(self) -> int:
        """How many chunks are known to be damaged, up to the most that are remembered."""
        return len(self._found)

    def count_among(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of these chunks are known to be damaged, of those a tenant may see."""
        with self._lock:
            known = [self._found[one] for one in chunk_ids if one in self._found]
        return sum(chunk.tenant in ("", tenant) for chunk in known)


def damage_error(corpus: str, chunk_ids: Sequence[int]) -> StorageError:
    """Return the error for vectors that differ from their checksums."""
    shown = ", ".join(map(str, chunk_ids[:5]))
    return StorageError(
        f"{corpus}: the stored vector of chunk {shown} is damaged: it differs from its checksum;"
        f" {remedy(corpus)}"
    )


def remedy(corpus: str) -> str:
    """Return what to do about damage."""
    return (
        f"`heddle doctor --index {corpus} --check` names the documents: index them again, or"
        " restore a backup"
    )
