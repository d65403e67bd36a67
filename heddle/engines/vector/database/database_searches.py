"""Searches that the corpus's database carries out.

(docs/guide/postgresql.md#search-inside-postgresql)
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from heddle.core.errors import InputError
from heddle.core.payloads import SearchPayload
from heddle.core.tasks import Task
from heddle.corpus.vector_index import DatabaseHits, VectorIndexKind
from heddle.engines.vector.database.search import DatabaseSearch
from heddle.engines.vector.database.searched_database import SEARCHES_MAX, SearchedDatabase
from heddle.engines.vector.search import search_refusal
from heddle.engines.vector.search_tasks import SearchTasks

PRIOR_S: Final[Mapping[str, float]] = MappingProxyType(
    {"call": 5e-5, "rows": 1e-4, "compared": 0.0, "followed": 0.0, "stored": 5e-5}
)
"""Seconds of the lane, before anything is measured: the database's own are not among them."""


class DatabaseSearches:
    """A SearchMethod without an index of its own: it hands searches on, and takes what was found.

    A search is one call: it can't be cut into steps, so it has no partial hits.

    Args:
        tasks: the engine's searches.
        database: carries them out.
        kind: of the index there.
    """

    def __init__(
        self,
        tasks: SearchTasks[DatabaseSearch],
        database: SearchedDatabase,
        kind: VectorIndexKind,
    ) -> None:
        self._tasks, self._database, self._kind = tasks, database, kind
        self._waiting: list[DatabaseSearch] = []
        self._begun: dict[int, DatabaseSearch] = {}
        self._arrivals = 0

    @property
    def has_work(self) -> bool:
        """Whether a search waits and may begin, or one has ended."""
        has_room = len(self._begun) < SEARCHES_MAX
        return self._database.searches.has_results or (bool(self._waiting) and has_room)

    @property
    def dims(self) -> int | None:
        """Length of a vector; None while there is none."""
        return self._database.dims

    @property
    def revision(self) -> int:
        """The newest revision that a search has seen."""
        return self._database.revision

    @property
    def vectors(self) -> int:
        """Vectors in the index, by the database's statistics when the lane began."""
        return self._database.vectors

    @property
    def rows_in_flight(self) -> int:
        """Queries of searches that the database carries out now."""
        return sum(search.rows for search in self._begun.values())

    @property
    def rows_waiting(self) -> int:
        """Queries of searches that wait."""
        return sum(search.rows for search in self._waiting)

    @property
    def may_follow(self) -> bool:
        """Whether there is something to follow: never."""
        return False

    def refusal(self, payload: SearchPayload) -> str | None:
        """Return why a search can't be carried out, or None."""
        return search_refusal(payload)

    def search_of(self, task: Task, payload: SearchPayload, report_every: int) -> DatabaseSearch:
        """Return a task's search, which is not queued yet."""
        self._arrivals += 1
        priority = task.identity.priority
        return DatabaseSearch(
            task.task_id,
            payload,
            priority,
            report_every,
            notes=self._notes(payload),
            arrival=self._arrivals,
        )

    def add(self, search: DatabaseSearch) -> None:
        """Queue a search."""
        if search.rows:
            self._waiting.append(search)
        else:
            self._tasks.end_empty(search)

    def prioritise(self, search: DatabaseSearch) -> None:
        """Do nothing: the most urgent one is looked for when one may begin."""

    def drop(self, search: DatabaseSearch) -> None:
        """Forget a search; the database may go on with it, and its result is not taken."""
        if search in self._waiting:
            self._waiting.remove(search)
        self._begun.pop(search.task_id, None)
        self._database.searches.cancel(search.task_id)

    def queue(self, now_s: float) -> None:
        """Do nothing: classes and arrivals order searches, and deadlines don't."""

    def follow(self) -> int:
        """Follow nothing; return 0."""
        return 0

    def held_up(self) -> Iterable[int]:
        """Return nothing: no search waits for an index."""
        return ()

    def advance(self, budget_s: float, *, may_begin: bool) -> Mapping[str, float]:
        """Take what was found, and have the database begin the most urgent that wait."""
        self._take()
        rows = 0
        while may_begin and self._waiting and len(self._begun) < SEARCHES_MAX:
            search = min(self._waiting, key=lambda one: one.urgency)
            self._waiting.remove(search)
            if not self._tasks.begin(search, self.revision, self.dims):
                continue
            self._begun[search.task_id] = search
            self._database.searches.start(search.task_id, search.payload)
            rows += search.rows
        return {"rows": rows, "compared": 0.0}

    def predicted_step_s(self, budget_s: float, *, goes_on: bool) -> float:
        """Return how long the next `advance` should take [s]."""
        costs = self._tasks.costs.coefficients_s
        return costs["call"] + SEARCHES_MAX * costs["rows"]

    def work(self, payload: SearchPayload) -> float:
        """Return the queries of a search, at least 1."""
        return max(1, payload.rows)

    def _notes(self, payload: SearchPayload) -> tuple[str, ...]:
        """Return which of a search's own wishes the index has no use for."""
        unused, value = (
            ("nprobe", payload.nprobe) if self._kind.is_graph else ("topm", payload.topm)
        )
        return () if value is None else (unused_by(self._kind, unused),)

    def _take(self) -> None:
        for task_id, found in self._database.searches.take():
            self._end(self._begun.pop(task_id), found)

    def _end(self, search: DatabaseSearch, found: DatabaseHits | Exception) -> None:
        task_id = search.task_id
        if isinstance(found, InputError):
            self._tasks.fail([task_id], str(found), is_input=True)
            return
        with self._tasks.failing("the search in PostgreSQL failed", lambda: [task_id]):
            if isinstance(found, Exception):
                raise found
            self._database.seen_revision = max(self._database.seen_revision, found.revision)
            search.revision, search.searched_by = found.revision, found.how
            search.found = found.distances, found.labels
            search.rows_joined = search.rows_done = search.rows
            self._tasks.finish(search)


def unused_by(kind: VectorIndexKind, name: str) -> str:
    """Return the note on a setting that an index has no use for."""
    return f"{name}: the index inside PostgreSQL is {kind.value}, which has no use for it"
