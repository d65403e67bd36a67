"""How the best hits of many questions change, list by list, in one pass over an index.

A question scans half of all lists, so a list that is read once serves half of the questions.
"""

from collections.abc import Callable
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

TOLD_EVERY: Final = 1_000  # lists
NO_PLACE: Final = -1


class HitScan:
    """The `hits` nearest vectors of each list, for all questions that scan the list.

    Args:
        index: inverted lists of whole vectors.
        queries: of the questions, [n, d].
        lists_max: how many lists each question scans, the nearest first.
        hits: best hits that are followed.

    Shapes: distances [n, lists_max, hits] float32 (squared), labels likewise int64; the second
    axis is the place of a list in the order of its question. inf and -1 = the list has no more.
    """

    def __init__(
        self, index: faiss.IndexIVFFlat, queries: NDArray[np.float32], lists_max: int, hits: int
    ) -> None:
        self._index, self._queries, self._hits = index, queries, hits
        self._norms = (queries**2).sum(axis=1)
        _, order = index.quantizer.search(queries, lists_max)
        self._places = np.full((len(queries), index.nlist), NO_PLACE, np.int32)
        np.put_along_axis(self._places, order, np.arange(lists_max, dtype=np.int32)[None], axis=1)
        shape = len(queries), lists_max, hits
        self._distances = np.full(shape, np.inf, np.float32)
        self._labels = np.full(shape, -1, np.int64)

    def changes(self, tell: Callable[[str], None]) -> dict[str, NDArray[np.generic]]:
        """Scan all lists, and return what came among the best of each question, and when.

        Args:
            tell: takes a line of progress now and then.
        Returns: `starts`, `at`, `labels` and `distances` as in `Recording`.
        """
        for number in range(self._index.nlist):
            self._scan(number)
            if (number + 1) % TOLD_EVERY == 0:
                tell(f"scanned {number + 1} of {self._index.nlist} lists")
        return self._in_turn()

    def _scan(self, number: int) -> None:
        """Keep the nearest vectors of a list for all questions that scan it."""
        asking = np.flatnonzero(self._places[:, number] != NO_PLACE)
        ids, vectors = _list_of(self._index, number)
        if not len(asking) or not len(ids):
            return
        norms = (vectors**2).sum(axis=1)
        squares = self._norms[asking, None] + norms - 2.0 * self._queries[asking] @ vectors.T
        kept = min(self._hits, len(ids))
        near = np.argpartition(squares, kept - 1, axis=1)[:, :kept]
        places = self._places[asking, number]
        self._distances[asking, places, :kept] = np.take_along_axis(squares, near, axis=1)
        self._labels[asking, places, :kept] = ids[near]

    def _in_turn(self) -> dict[str, NDArray[np.generic]]:
        """Go through the lists of each question in its order."""
        best = np.full((len(self._queries), self._hits), np.inf, np.float32)
        whose, at, labels, distances = [], [], [], []
        for place in range(self._distances.shape[1]):
            squares = self._distances[:, place]
            question, column = np.nonzero(squares < best[:, -1:])
            if len(question):
                whose.append(question)
                at.append(np.full(len(question), place))
                labels.append(self._labels[question, place, column])
                distances.append(squares[question, column])
                best = np.sort(np.hstack([best, squares]), axis=1)[:, : self._hits]
        questions = np.concatenate(whose)
        order = np.argsort(questions, kind="stable")
        counts = np.bincount(questions, minlength=len(self._queries))
        return {
            "starts": np.concatenate([[0], np.cumsum(counts)]),
            "at": np.concatenate(at)[order],
            "labels": np.concatenate(labels)[order],
            "distances": np.concatenate(distances)[order],
        }


def _list_of(
    index: faiss.IndexIVFFlat, number: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids [n] and vectors [n, d] of a list, where they lie."""
    count = index.invlists.list_size(number)
    if not count:
        return np.empty(0, np.int64), np.empty((0, index.d), np.float32)
    codes = faiss.rev_swig_ptr(index.invlists.get_codes(number), count * index.code_size)
    ids = faiss.rev_swig_ptr(index.invlists.get_ids(number), count)
    return ids, codes.view(np.float32).reshape(count, index.d)
