"""A vector lane's engine: the life of searches and ingestions, over any kind of index."""

import math
from collections.abc import Callable, Mapping
from typing import Final, Generic

from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.errors import DiskFull, Unreachable
from heddle.core.frames import Failed, Frame, Load
from heddle.core.gauges import INDEX_REVISION, INDEX_VECTORS
from heddle.core.payloads import IngestPayload, SearchPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Ingested
from heddle.costs.step_report import StepReport
from heddle.engines.vector.corpus.followed_corpus import FollowedCorpus
from heddle.engines.vector.corpus.ingest_queue import IngestQueue, WaitingIngest, ingest_refusal
from heddle.engines.vector.method import S, SearchMethod
from heddle.engines.vector.recall.self_check import SelfCheck
from heddle.engines.vector.search import dims_refusal
from heddle.engines.vector.search_tasks import SearchTasks

CANT_FOLLOW: Final = "the index can't follow the corpus"


class SearchEngine(Generic[S]):
    """Searches in flight over one index, advanced together in each step.

    A step takes in hits by words, brings the index up to the corpus, lets waiting searches begin,
    advances those in flight, stores an ingestion, and runs a sample again where nothing waits.
    A search sees all that was committed to the corpus before it came, by any process. Where asking
    for the newest revision takes a round trip, searches go ahead meanwhile on the index as it is;
    if it turns out to be older, they begin anew, and nothing of them is reported before.

    Args:
        name: the lane's name.
        epoch: the lane's epoch.
        clock: measures steps.
        make_method: makes what carries searches out, given the tasks it reports to.
        corpus: what the index follows, and where vectors are stored; None = the index is fixed.
        substage_budget_s: time for one step where the caller names none [s].
        prior_s: the cost model's first guess.
        check: runs a share of the searches again, exactly; None = none.
        notes: where this engine runs degraded; every search reports it.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        clock: Clock,
        make_method: Callable[[SearchTasks[S]], SearchMethod[S]],
        corpus: FollowedCorpus | None,
        *,
        substage_budget_s: float,
        prior_s: Mapping[str, float],
        check: SelfCheck | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._report = StepReport(name, epoch, clock, prior_s)
        self._tasks = SearchTasks[S](self._report, self._free, corpus, check, notes)
        self.method = make_method(self._tasks)
        self._corpus, self._check = corpus, check
        self._budget_s = substage_budget_s
        self._ingests = IngestQueue()
        self._has_new_search = False  # it has to see what is committed now
        self._new: dict[int, Admit] = {}  # searches that came since the last look at the corpus
        self._revision_wanted = 0
        self._is_behind = False

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._report.lane

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        if self._corpus is None:
            return frozenset({PrimitiveKind.SEARCHING})
        return frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._report.has_events or self._goes_on

    @property
    def rows_in_flight(self) -> int:
        """Queries that hold a slot."""
        return self.method.rows_in_flight

    def apply(self, command: Command) -> None:
        """Take a command in; unknown tasks and commands of no use to an index are ignored."""
        match command:
            case Admit():
                self._admit(command)
            case Cancel(task_id=task_id):
                self._new.pop(task_id, None)
                if self._tasks.drop(task_id) or self._ingests.remove(task_id):
                    self._report.cancelled(task_id)
            case Steer():
                self._steer(command)
            case _:
                pass

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Advance the searches in flight, or store vectors.

        Args:
            now_s: the lane's time; deadlines are counted on it [s].
            budget_s: time to work for [s]; inf = the engine's own step size.
        """
        self._report.begin()
        self._tasks.take_words()
        self.method.queue(now_s)
        goes_ahead = self._ask_newest()
        may_begin, followed = self._follow()
        budget_s = self._budget_s if math.isinf(budget_s) else budget_s
        done = self.method.advance(budget_s, may_begin=may_begin)
        if goes_ahead:
            self._hear_newest()
        stored = self._ingest()
        # The hits of this step go out first.
        is_free = not stored and not any(done.values())
        compared = done["compared"] + (self._run_again() if is_free else 0)
        counts = {**done, "compared": compared, "followed": followed, "stored": stored}
        return self._report.frame(
            {"call": 1.0, **{name: float(count) for name, count in counts.items()}},
            Load(self.rows_in_flight, self.method.rows_waiting + self._ingests.rows),
            has_computed=any(counts.values()),
            has_work=self._goes_on,
            recall=self._tasks.recall,
            notes=self._tasks.problems,
            gauges=self._gauges(),
        )

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` when a search by words has ended, or another process has committed."""
        if self._corpus is not None:
            self._corpus.subscribe(wake)

    def close(self) -> None:
        """Release the corpus; nothing is called afterwards."""
        if self._corpus is not None:
            self._corpus.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the cost model [s]."""
        advance_s = self.method.predicted_step_s(self._budget_s, goes_on=self._goes_on)
        stored = self._ingests.rows_of_largest
        return advance_s + self._report.costs.predict_s({"stored": stored})

    def work(self, payload: SearchPayload) -> float:
        """Return the size of a search in units of its method, at least 1."""
        return self.method.work(payload)

    # Tasks ------------------------------------------------------------------------------------

    @property
    def _goes_on(self) -> bool:
        has_sample = self._check is not None and self._check.has_work
        return self._has_tasks or self._has_news or has_sample

    @property
    def _has_news(self) -> bool:
        """Whether there is something to follow though no search waits for it."""
        return self._is_behind or (self._corpus is not None and self._corpus.has_news)

    @property
    def _has_tasks(self) -> bool:
        return self.method.has_work or self._tasks.has_words or bool(self._ingests)

    def _gauges(self) -> dict[str, float]:
        if self._corpus is None:
            return {}
        return {INDEX_REVISION: self.method.revision, INDEX_VECTORS: self.method.vectors}

    def _admit(self, command: Admit) -> None:
        task, task_id, payload = command.task, command.task.task_id, command.task.payload
        if task_id in self._tasks or task_id in self._ingests:
            return
        refusal: str | None
        if isinstance(payload, SearchPayload):
            refusal = self.method.refusal(payload)
            if refusal is None:
                self._add(self.method.search_of(task, payload, command.report_every))
                if self._corpus is not None:
                    self._new[task_id] = command
        elif isinstance(payload, IngestPayload) and self._corpus is not None:
            refusal = ingest_refusal(payload)
            if refusal is None:
                self._ingests.add(WaitingIngest(task_id, payload, task.identity.priority))
        else:
            refusal = f"{self.name} carries out no {type(payload).__name__}"
        if refusal is not None:
            self._report.failed(task_id, refusal, is_input=True)

    def _add(self, search: S) -> None:
        self._tasks.add(search)
        self.method.add(search)
        self._has_new_search = True

    def _free(self, search: S) -> None:
        self.method.drop(search)

    def _steer(self, command: Steer) -> None:
        if command.budget_s is not None:
            self._budget_s = command.budget_s
        if command.task_id is None or command.priority is None:
            return
        search = self._tasks.running.get(command.task_id)
        if search is not None and search.priority is not command.priority:
            search.priority = command.priority
            self.method.prioritise(search)
        self._ingests.prioritise(command.task_id, command.priority)

    # One step ---------------------------------------------------------------------------------

    def _ask_newest(self) -> bool:
        """Ask for the newest revision, if searches can go ahead meanwhile; return whether they do.

        Where there are news, the index is likely to be older: they would begin in vain.
        """
        corpus = self._corpus
        if corpus is None or not self._has_new_search or corpus.has_news:
            return False
        if not corpus.covers(self._revision_wanted):
            return False
        with self._tasks.failing(CANT_FOLLOW, self._take_new):
            self._has_new_search = not corpus.ask_newest()
            return not self._has_new_search
        return False

    def _hear_newest(self) -> None:
        """Take in what was asked: if the index is older, or may be, new searches begin anew."""
        assert self._corpus is not None, "nothing was asked"
        new = self._take_new()
        with self._tasks.failing(CANT_FOLLOW, self._take_new):
            is_covered = False
            try:
                newest = self._corpus.asked_newest()
                # Without an answer their hits may be old, and have no note that says so.
                if newest is not None:
                    self._revision_wanted = newest
                    is_covered = self._corpus.covers(newest)
            finally:
                if not is_covered:
                    self._begin_anew(new)

    def _take_new(self) -> Mapping[int, Admit]:
        """Return the searches that came since the last look, and expect none of them any more."""
        new, self._new = self._new, {}
        self._has_new_search = False
        return new

    def _begin_anew(self, new: Mapping[int, Admit]) -> None:
        self._report.forget(new)
        for task_id, command in new.items():
            self._tasks.drop(task_id)
            self._admit(command)

    def _follow(self) -> tuple[bool, int]:
        """Bring the index up to what was committed when the newest search came, or the last news.

        Returns: whether waiting searches may begin, and how many changes were followed.
        """
        corpus = self._corpus
        if corpus is None:
            return True, 0
        self._is_behind = False  # also where the next line fails: the next news tries again
        with self._tasks.failing(CANT_FOLLOW, self.method.held_up):
            if self._has_new_search or corpus.has_news:
                self._new.clear()  # if the look fails, what waits fails and never begins anew
                self._revision_wanted = corpus.newest_revision()
                self._has_new_search = False
            is_covered = corpus.covers(self._revision_wanted)
            if is_covered or not self.method.may_follow:
                return is_covered, 0
            if self._check is not None:
                self._check.index_changes()
            followed = self.method.follow()
            is_covered = corpus.covers(self._revision_wanted)
            self._is_behind = not is_covered
            return is_covered, followed
        return False, 0

    def _ingest(self) -> int:
        """Store one waiting ingestion, unless more urgent searches go on; return its rows."""
        ingest = self._ingests.next(search.priority for search in self._tasks.running.values())
        if ingest is None:
            return 0
        assert self._corpus is not None, "a fixed index took vectors to store"
        task_id, payload = ingest.task_id, ingest.payload
        self._ingests.remove(task_id)
        refusal = dims_refusal(payload.vectors.shape[1], self.method.dims)
        if refusal is not None:
            self._report.failed(task_id, refusal, is_input=True)
            return 0
        try:
            revision = self._corpus.store(payload.chunk_ids, payload.vectors)
        except DiskFull as error:
            self._report.tell(Failed(task_id, f"storing vectors failed: {error}", is_full=True))
            return 0
        except Exception as error:
            is_away = isinstance(error, Unreachable)
            message = f"storing vectors failed: {error}"
            self._report.tell(Failed(task_id, message, is_away=is_away))
            return 0
        self._report.done(task_id, Ingested(payload.rows, revision))
        return payload.rows

    def _run_again(self) -> int:
        """Advance a sample's exact answer if no task waits; return how many were compared."""
        if self._check is None or not self._check.has_work or self._has_tasks:
            return 0
        return self._check.advance()
