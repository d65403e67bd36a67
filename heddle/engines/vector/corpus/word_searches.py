"""Searches by words, in a thread beside the lane's steps."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from heddle.core.frames import Event, Progress
from heddle.core.payloads import SearchPayload
from heddle.core.results import RankedHits
from heddle.engines.vector.corpus.source import VectorSource


class WordSearch:
    """A search by words under way; `is_cancelled` is set when its result is no longer wanted."""

    def __init__(self, task_id: int, payload: SearchPayload) -> None:
        self.task_id, self.payload = task_id, payload
        self.is_cancelled = threading.Event()


class WordSearches:
    """Carries searches by words out, one after another, in a thread of its own.

    The database lets go of the interpreter's lock while it looks, so steps go on meanwhile. The
    lane's searches bound how many wait. The thread begins with the first, and `close` joins it.

    Args:
        source: the corpus, which gives each thread a connection of its own.
    """

    def __init__(self, source: VectorSource) -> None:
        self._source = source
        self._thread = ThreadPoolExecutor(1, "words")
        self._searches: dict[int, WordSearch] = {}
        self._ended: deque[tuple[WordSearch, Future[RankedHits]]] = deque()  # by the thread
        self._wake: Callable[[], None] = _nobody

    @property
    def has_results(self) -> bool:
        """Whether `take` has something to give."""
        return bool(self._ended)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the thread, whenever a search has ended."""
        self._wake = wake

    def start(self, task_id: int, payload: SearchPayload) -> None:
        """Look for what shares words with the payload's texts, when those before are over."""
        search = self._searches[task_id] = WordSearch(task_id, payload)
        future = self._thread.submit(self._find, search)
        future.add_done_callback(lambda ended: self._end(search, ended))

    def take(self) -> list[tuple[int, RankedHits | Exception]]:
        """Give away what searches have found, or why they failed, by task."""
        taken: list[tuple[int, RankedHits | Exception]] = []
        while self._ended:
            search, ended = self._ended.popleft()
            if search.is_cancelled.is_set():
                continue
            del self._searches[search.task_id]
            error = ended.exception()
            result = error if isinstance(error, Exception) else ended.result()
            taken.append((search.task_id, result))
        return taken

    def cancel(self, task_id: int) -> None:
        """Forget a search, if there is one, and stop it where it is."""
        if task_id in self._searches:
            self._searches.pop(task_id).is_cancelled.set()

    def close(self) -> None:
        """Stop all that goes on and join the thread."""
        for task_id in list(self._searches):
            self.cancel(task_id)
        self._thread.shutdown()

    def _end(self, search: WordSearch, ended: Future[RankedHits]) -> None:
        if not search.is_cancelled.is_set():
            self._ended.append((search, ended))
            self._wake()

    def _find(self, search: WordSearch) -> RankedHits:
        payload = search.payload
        assert payload.words is not None, "a search without words"
        shape = (len(payload.words), payload.topk)
        labels, distances = np.full(shape, -1, np.int64), np.full(shape, np.inf, np.float32)
        for row, text in enumerate(payload.words):
            if search.is_cancelled.is_set():
                break
            found = self._source.by_words(
                text, payload.topk, payload.scope, search.is_cancelled.is_set
            )
            count = len(found.chunk_ids)
            labels[row, :count] = found.chunk_ids
            distances[row, :count] = ((found.vectors - payload.queries[row]) ** 2).sum(axis=1)
        return RankedHits(labels, distances)


def only_words_lack(task_id: int) -> Progress:
    """Return the report on a search that only lacks its hits by words."""
    return Progress(task_id, fraction=1.0)


def tells_only_words_lack(event: Event) -> bool:
    """Whether an event is that report; partial hits come with labels."""
    return isinstance(event, Progress) and event.labels is None


def _nobody() -> None:
    """Stand in for a subscriber until there is one."""
