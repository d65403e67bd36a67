"""Searches by words, in a thread beside the lane's steps."""

from collections.abc import Callable

import numpy as np

from heddle.core.frames import Event, Progress
from heddle.core.payloads import SearchPayload
from heddle.core.results import RankedHits
from heddle.engines.vector.corpus.outside_searches import OutsideSearches
from heddle.engines.vector.corpus.source import VectorSource


class WordSearches(OutsideSearches[RankedHits]):
    """Carries searches by words out, one after another, in a thread of its own.

    Args:
        source: the corpus, which gives each thread a connection of its own.
    """

    def __init__(self, source: VectorSource) -> None:
        super().__init__(self._by_words, 1, "words")
        self._source = source

    def _by_words(self, payload: SearchPayload, is_cancelled: Callable[[], bool]) -> RankedHits:
        assert payload.words is not None, "a search without words"
        shape = (len(payload.words), payload.topk)
        labels, distances = np.full(shape, -1, np.int64), np.full(shape, np.inf, np.float32)
        for row, text in enumerate(payload.words):
            if is_cancelled():
                break
            found = self._source.by_words(text, payload.topk, payload.scope, is_cancelled)
            count = len(found.chunk_ids)
            if not count:  # of a corpus without vectors their length is 0
                continue
            labels[row, :count] = found.chunk_ids
            distances[row, :count] = ((found.vectors - payload.queries[row]) ** 2).sum(axis=1)
        return RankedHits(labels, distances)


def only_words_lack(task_id: int) -> Progress:
    """Return the report on a search that only lacks its hits by words."""
    return Progress(task_id, fraction=1.0)


def tells_only_words_lack(event: Event) -> bool:
    """Whether an event is that report; partial hits come with labels."""
    return isinstance(event, Progress) and event.labels is None
