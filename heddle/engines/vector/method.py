"""What an index adds to the life of a search: how searches begin, advance and are dropped."""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from heddle.core.payloads import SearchPayload
from heddle.core.tasks import Task
from heddle.engines.vector.search import RunningSearch

S = TypeVar("S", bound=RunningSearch)


class SearchMethod(Protocol[S]):
    """Carries out searches over one kind of index; `SearchEngine` does the rest.

    A method is made with the `SearchTasks` of its engine. It reports there which searches have
    ended, have failed, or have partial hits.

    Example:
        from pathlib import Path
        from heddle.core.commands import Admit
        from heddle.core.payloads import SearchPayload
        from heddle.core.primitives import PrimitiveKind
        from heddle.core.tasks import Identity, Task
        from heddle.engines.vector.build import VectorSettings, build_engine

        engine = build_engine("vector", 1, VectorSettings(Path("corpus")))
        queries = server.embed(["Who founded Oak Mill?"], role="query").values
        asked = SearchPayload(queries, topk=1)
        engine.apply(Admit(Task(1, PrimitiveKind.SEARCHING, Identity(1, "find"), asked)))
        print(engine.method.vectors, engine.method.rows_waiting)  # 3 1
        while engine.method.has_work:
            frame = engine.step(now_s=0.0, budget_s=0.002)
        print(frame.events[-1].result.labels)  # [[3]]
        engine.close()
    """

    @property
    def dims(self) -> int | None:
        """Length of a vector; None while the index is empty."""
        ...

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        ...

    @property
    def vectors(self) -> int:
        """Vectors in the index."""
        ...

    @property
    def rows_in_flight(self) -> int:
        """Queries that hold a slot."""
        ...

    @property
    def rows_waiting(self) -> int:
        """Queries that wait for a slot."""
        ...

    @property
    def has_work(self) -> bool:
        """Whether `advance` would do something; searches that others carry out need no step."""
        ...

    @property
    def may_follow(self) -> bool:
        """Whether the index may change now, and a search may need it to."""
        ...

    def refusal(self, payload: SearchPayload) -> str | None:
        """Return why a search can't be carried out, or None."""
        ...

    def search_of(self, task: Task, payload: SearchPayload, report_every: int) -> S:
        """Return a task's search, which is not queued yet."""
        ...

    def add(self, search: S) -> None:
        """Queue a search."""
        ...

    def prioritise(self, search: S) -> None:
        """Follow a search's new priority."""
        ...

    def drop(self, search: S) -> None:
        """Free all that a search holds; it has ended, or no longer counts."""
        ...

    def queue(self, now_s: float) -> None:
        """Order the searches that came since the last step by when they are due [s]."""
        ...

    def follow(self) -> int:
        """Bring a piece of the corpus's changes into the index; return the number of changes."""
        ...

    def held_up(self) -> Iterable[int]:
        """Return the tasks that can't go on before the index has followed the corpus."""
        ...

    def advance(self, budget_s: float, *, may_begin: bool) -> Mapping[str, float]:
        """Give free slots to waiting rows, then work on those in flight for this long [s].

        Where not `may_begin`, no search begins. Returns what was done, by the features of the
        cost model, `compared` (vectors compared one by one) among them.
        """
        ...

    def predicted_step_s(self, budget_s: float, *, goes_on: bool) -> float:
        """Return how long the next `advance` should take [s]; `goes_on`: the engine has work."""
        ...

    def work(self, payload: SearchPayload) -> float:
        """Return the size of a search in units of the method, at least 1."""
        ...
