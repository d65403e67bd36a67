"""BM25 over passages in memory. (Robertson and Zaragoza 2009)"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .rows import Passage

_WORD = re.compile(r"\w+")
_K1, _B = 0.9, 0.4
_COMMON_SHARE = 0.2  # of the passages: words in more of them tell nothing


class WordIndex:
    """Passages by the words of the questions that will be asked."""

    def __init__(self, passages: Sequence[Passage], questions: Iterable[str]) -> None:
        self.passages = passages
        asked = {word for question in questions for word in _words(question)}
        postings: dict[str, list[tuple[int, int]]] = {word: [] for word in asked}
        lengths = np.zeros(len(passages))
        for place, passage in enumerate(passages):
            counts = Counter(_words(f"{passage.title} {passage.text}"))
            lengths[place] = counts.total()
            for word in asked & counts.keys():
                postings[word].append((place, counts[word]))
        self._norm = _K1 * (1 - _B + _B * lengths / max(1.0, lengths.mean()))
        self._weighted = {
            word: self._scores(np.array(found))
            for word, found in postings.items()
            if 0 < len(found) <= _COMMON_SHARE * len(passages)
        }

    def best(self, question: str, limit: int) -> list[Passage]:
        """The passages of the highest scores, the best first; equal scores in their order."""
        scores = np.zeros(len(self.passages))
        for word in sorted(set(_words(question))):
            if word in self._weighted:
                places, gains = self._weighted[word]
                scores[places] += gains
        found = np.flatnonzero(scores)
        if len(found) > limit:
            least = np.partition(scores[found], -limit)[-limit]
            found = found[scores[found] >= least]
        order = found[np.argsort(-scores[found], kind="stable")][:limit]
        return [self.passages[place] for place in order]

    def _scores(self, found: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        places, counts = found[:, 0], found[:, 1]
        n = len(self.passages)
        rarity = np.log(1 + (n - len(places) + 0.5) / (len(places) + 0.5))
        return places, rarity * counts * (_K1 + 1) / (counts + self._norm[places])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
