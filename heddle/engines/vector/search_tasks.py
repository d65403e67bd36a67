"""The searches of an engine, and how each of them ends."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Final, Generic

import numpy as np

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.errors import InputError, Unreachable
from heddle.core.frames import Failed, Progress
from heddle.core.results import Hits, RankedHits, RecallEstimate
from heddle.costs.step_report import StepReport
from heddle.engines.vector.corpus.followed_corpus import FollowedCorpus
from heddle.engines.vector.corpus.word_searches import only_words_lack
from heddle.engines.vector.method import S
from heddle.engines.vector.recall.self_check import SelfCheck
from heddle.engines.vector.search import dims_refusal

NO_WORDS: Final = "the corpus is away: nothing was searched for by words, only meaning counted"
Whose = Callable[[], Iterable[int]]
"""Returns the tasks that an error concerns; called after the error only."""


class Failing:
    """Fails tasks where its block raises; the code after the block goes on.

    Args:
        fail: takes the tasks, a message, and whether the corpus is away.
        what: failed, the beginning of the message.
        whose: the tasks.
    """

    __slots__ = ("_fail", "_what", "_whose")

    def __init__(
        self, fail: Callable[[Iterable[int], str, bool], None], what: str, whose: Whose
    ) -> None:
        self._fail, self._what, self._whose = fail, what, whose

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Fail the tasks if the block raised an Exception; others go on their way."""
        if not isinstance(error, Exception):
            return False
        is_away = isinstance(error, Unreachable)
        self._fail(self._whose(), f"{self._what}: {error}", is_away)
        return True


class SearchTasks(Generic[S]):
    """Searches from admission to their terminal event, over any kind of index.

    Args:
        report: takes their events.
        free: frees what a search holds in its index.
        corpus: what the index follows; None = the index is fixed.
        check: runs a share of the searches again, exactly; None = none.
        notes: where this engine runs degraded; every search reports it.
    """

    def __init__(
        self,
        report: StepReport,
        free: Callable[[S], None],
        corpus: FollowedCorpus | None,
        check: SelfCheck | None,
        notes: tuple[str, ...],
    ) -> None:
        self._report, self._free, self._corpus, self._own_notes = report, free, corpus, notes
        self.check = check
        self.running: dict[int, S] = {}
        self.reporting: dict[int, S] = {}  # those that asked for Progress
        self._lacking_words: dict[int, Hits] = {}  # those that only wait for `by_words`

    def __contains__(self, task_id: int) -> bool:
        """Return whether a search has not ended yet."""
        return task_id in self.running or task_id in self._lacking_words

    @property
    def costs(self) -> CostSnapshot:
        """The cost model of a step."""
        return self._report.costs

    @property
    def has_words(self) -> bool:
        """Whether a search by words has ended and was not taken in yet."""
        return self._corpus is not None and self._corpus.words.has_results

    @property
    def notes(self) -> tuple[str, ...]:
        """Where searches run degraded."""
        return self._own_notes if self._corpus is None else (*self._own_notes, *self._corpus.notes)

    @property
    def problems(self) -> tuple[str, ...]:
        """Those of the `notes` that somebody has to mend."""
        return () if self._corpus is None else self._corpus.problems

    @property
    def recall(self) -> RecallEstimate | None:
        """What searches find, measured by running some again exactly."""
        return None if self.check is None else self.check.estimate

    def add(self, search: S) -> None:
        """Take a search in."""
        self.running[search.task_id] = search
        if search.report_every > 0:
            self.reporting[search.task_id] = search

    def begin(self, search: S, revision: int, dims: int | None) -> bool:
        """Settle a search's revision and scope, and start its search by words.

        Args:
            search: none of its rows has begun.
            revision: that the index covers.
            dims: of the index's vectors; None = it has none.

        Returns: whether the search goes on; else it has ended.
        """
        search.revision = revision
        refusal = dims_refusal(search.payload.queries.shape[1], dims)
        if refusal is not None:
            self.fail([search.task_id], refusal, is_input=True)
            return False
        if search.payload.words is not None:
            assert self._corpus is not None, "words to look for without a corpus"
            self._corpus.words.start(search.task_id, search.payload)
        if dims is None or not search.rows:
            self.finish(search)
            return False
        return self.settle_scope(search)

    def settle_scope(self, search: S) -> bool:
        """Settle which vectors a search may find; return whether the corpus could say."""
        if self._corpus is None:
            return True
        with self.failing("what the search may find is unknown", lambda: [search.task_id]):
            try:
                search.allowed = self._corpus.allowed(search.payload.scope)
                return True
            except InputError as error:
                self.fail([search.task_id], str(error), is_input=True)
        return False

    def tell(self, progress: Progress) -> None:
        """Report the hits so far of a search."""
        self._report.tell(progress)

    def finish(self, search: S) -> None:
        """End a search that has its hits; one that lacks its hits by words waits for them."""
        self._forget(search)
        if search.payload.words is None or search.by_words is not None:
            self._report.done(search.task_id, self._hits(search))
        else:
            self._lacking_words[search.task_id] = self._hits(search)
            self._report.tell(only_words_lack(search.task_id))

    def end_empty(self, search: S) -> None:
        """End a search without rows: it has no texts to look for either."""
        self._forget(search)
        self._report.done(search.task_id, self._hits(search))

    def drop(self, task_id: int) -> bool:
        """Forget a search and free its slots; return whether it was there."""
        if self._corpus is not None:
            self._corpus.words.cancel(task_id)
        if self._lacking_words.pop(task_id, None) is not None:
            return True
        search = self.running.get(task_id)
        if search is not None:
            self._forget(search)
        return search is not None

    def fail(self, task_ids: Iterable[int], message: str, *, is_input: bool = False) -> None:
        """End searches with an error; `is_input`: what the caller sent was refused."""
        for task_id in task_ids:
            if self.drop(task_id):
                self._report.failed(task_id, message, is_input=is_input)

    def failing(self, what: str, whose: Whose) -> Failing:
        """Return a context whose block fails these searches if it raises."""
        return Failing(self._fail_at, what, whose)

    def _fail_at(self, task_ids: Iterable[int], message: str, is_away: bool) -> None:
        """End searches with an error; `is_away`: the corpus can't be reached."""
        for task_id in task_ids:
            if self.drop(task_id):
                self._report.tell(Failed(task_id, message, is_away=is_away))

    def take_words(self) -> None:
        """Take in what searches by words have found, and end the tasks that only lacked that."""
        if self._corpus is None:
            return
        for task_id, found in self._corpus.words.take():
            if isinstance(found, Unreachable):
                found = self._without_words(task_id)
            if isinstance(found, Exception):
                self.fail([task_id], f"the search by words failed: {found}")
            elif task_id in self._lacking_words:
                hits = self._lacking_words.pop(task_id)
                self._report.done(task_id, replace(hits, by_words=found))
            else:
                self.running[task_id].by_words = found

    def _without_words(self, task_id: int) -> RankedHits:
        """Return no hits by words for a search, and note it there."""
        hits = self._lacking_words.get(task_id)
        if hits is None:
            search = self.running[task_id]
            search.notes = (*search.notes, NO_WORDS)
            shape = (len(search.payload.queries), search.payload.topk)
        else:
            self._lacking_words[task_id] = replace(hits, notes=(*hits.notes, NO_WORDS))
            shape = hits.labels.shape
        return RankedHits(np.full(shape, -1, np.int64), np.full(shape, np.inf, np.float32))

    def _hits(self, search: S) -> Hits:
        return search.hits((*self.notes, *search.notes), self.recall)

    def _forget(self, search: S) -> None:
        del self.running[search.task_id]
        self.reporting.pop(search.task_id, None)
        self._free(search)
