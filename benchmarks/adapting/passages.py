"""FAISS in the program's own process: the index, the passages and the model that embeds."""

import threading
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from benchmarks.adapting.setting import Setting
from benchmarks.coscheduling.heavy_index import INDEX, MAPPED
from heddle.core.passages import Passage
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.build import default_model_dir


class Passages:
    """Embeds a query and finds passages, as a program with FAISS in its process does.

    Args:
        setting: names the index and the corpus.
    """

    def __init__(self, setting: Setting) -> None:
        self.index = faiss.read_index(f"{setting.index}/{INDEX}", MAPPED)
        self.index.nprobe = setting.nprobe
        self.encoder = SentenceTransformer(str(default_model_dir()), device="cpu")
        self._store = CorpusStore.open(Path(setting.corpus))
        self._lock = threading.Lock()  # nodes run in threads

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Return a vector of length 1 for each text, [n, d]."""
        found: NDArray[np.float32] = self.encoder.encode(
            texts, normalize_embeddings=True, show_progress_bar=False
        )
        return found

    def find(self, vector: NDArray[np.float32], k: int) -> list[Passage]:
        """Return the nearest passages of a vector [d]."""
        _, ids = self.index.search(vector[None, :], k)
        found = [int(one) for one in ids[0] if one >= 0]
        with self._lock:
            passages = {one.chunk_id: one for one in self._store.passages(found)}
        return [passages[one] for one in found]
