"""A client that puts documents and deletes some, again and again until each is acknowledged."""

import random
import threading
from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import StorageError
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.store import CorpusStore
from tools.attacks.postgres.ledger import Ledger, Written

T = TypeVar("T")
DIMS: Final = 32
TENANTS: Final = ("", "ann", "bob")
WORDS: Final = ("harbour", "rope", "quay", "lantern", "tide", "cargo", "pilot", "anchor")
CHUNKS_MAX: Final = 40  # some documents are copied in, some are inserted
DELETE_SHARE: Final = 0.2
PAUSE_S: Final = 0.05


def vectors_of(chunk_ids: list[int]) -> NDArray[np.float32]:
    """Return a vector for each chunk, drawn from its id. Shape: [n, DIMS], normalised."""
    drawn = [np.random.default_rng(one).standard_normal(DIMS) for one in chunk_ids]
    found = np.array(drawn, np.float32).reshape(-1, DIMS)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


class Writer:
    """Puts and deletes documents through a store of its own.

    Args:
        name: begins the ids of its documents.
        url: the corpus's.
        ledger: hears what was acknowledged.
        seed: of its random choices.
    """

    def __init__(self, name: str, url: str, ledger: Ledger, seed: int) -> None:
        self._name, self._url, self._ledger = name, url, ledger
        self._random = random.Random(seed)
        self._pause = threading.Event()
        self._mine: list[Written] = []
        self.refused = 0

    def run(self, wants_more: Callable[[], bool]) -> None:
        """Write until enough was written."""
        number = 0
        with CorpusStore.open(self._url) as store:
            while wants_more():
                number += 1
                self._put(store, f"{self._name}-{number}")
                if self._mine and self._random.random() < DELETE_SHARE:
                    self._delete(store)

    def _put(self, store: CorpusStore, name: str) -> None:
        tenant = self._random.choice(TENANTS)
        size = self._random.choice((1, 2, 3, CHUNKS_MAX))
        texts = [f"{' '.join(self._random.choices(WORDS, k=6))}: {name}/{n}" for n in range(size)]
        document = Document(name, name, "\n".join(texts), "", tenant=tenant)
        chunks = [TextChunk(place, name, text) for place, text in enumerate(texts)]

        def put() -> Written:
            store.documents.put_document(document, chunks)
            waiting = store.documents.pending_chunks_of(name, tenant=tenant)
            ids = [chunk.chunk_id for chunk in waiting] or list(known)
            known[:] = ids
            written = Written(name, tenant, tuple(ids))
            self._ledger.began(written)
            store.store_vectors(ids, vectors_of(ids))
            return written

        known: list[int] = []
        written = self._acknowledged(put)
        self._ledger.put(written)
        self._mine.append(written)

    def _delete(self, store: CorpusStore) -> None:
        written = self._mine.pop(self._random.randrange(len(self._mine)))
        self._ledger.deleting(written)
        self._acknowledged(
            lambda: store.documents.delete_document(written.document, tenant=written.tenant)
        )
        self._ledger.deleted(written)

    def _acknowledged(self, write: Callable[[], T]) -> T:
        """Try a write until it is acknowledged; each is harmless when it is done twice."""
        while True:
            try:
                return write()
            except StorageError:
                self.refused += 1
                self._pause.wait(PAUSE_S)
