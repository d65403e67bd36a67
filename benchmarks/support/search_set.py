"""Real vectors to search: the passages of the wiki index, and questions about them."""

from dataclasses import dataclass
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.question_vectors import question_vectors
from benchmarks.support.wiki_index import wiki_index
from heddle.corpus.store import CorpusStore

QUESTIONS: Final = 600


@dataclass(frozen=True, slots=True, eq=False)
class SearchSet:
    """Passages and questions by MiniLM.

    Shapes: vectors [n, d] float32; queries [q, d] float32; all of unit length. The passages'
    ids are 1 to n.
    """

    vectors: NDArray[np.float32]
    queries: NDArray[np.float32]

    def nearest(self, k: int) -> NDArray[np.int64]:
        """Return the ids of each question's k nearest passages, by a full scan, [q, k]."""
        found: NDArray[np.int64] = faiss.knn(self.queries, self.vectors, k)[1]
        return found + 1


def search_set(quick: bool) -> SearchSet:
    """Return the wiki passages and the first questions about them (quick: the mini set's)."""
    index = wiki_index(quick)
    with CorpusStore.open(index.directory) as store:
        vectors = np.concatenate([batch.vectors for batch in store.vectors()])
    return SearchSet(vectors, question_vectors(index.single, QUESTIONS))
