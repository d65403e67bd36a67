"""The requests in flight, from admission to their one terminal event."""

import heapq
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVarTuple

from heddle.core.errors import DeadlineExceeded, HeddleError, InternalError
from heddle.core.tasks import Priority
from heddle.runtime.admission import Admission
from heddle.runtime.answer_builder import build_answer
from heddle.runtime.answer_keeping import AnswerKeeping
from heddle.runtime.counters import Counters
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.events import RequestFailed
from heddle.runtime.request import Request
from heddle.runtime.suspects import Suspects

log = logging.getLogger(__name__)
Args = TypeVarTuple("Args")
ENDED_DEADLINES: Final = 64  # are always kept: sweeping a short heap at every end would cost more


@dataclass(slots=True)
class RequestTable:
    """Lets requests in and ends each of them once: answered, failed, cancelled or out of time.

    Args:
        open: the requests in flight, by id.
        admission: who may come in.
        dispatcher: what a request that ends is withdrawn from.
        counters: where ends are counted.
        numerics: what every receipt says about batch dependence.
        keeping: keeps answers for requests to come.

    Mutates: `open`, `admission`, `counters`, `suspects`: those whose requests end lanes.
    """

    open: dict[int, Request]
    admission: Admission
    dispatcher: Dispatcher
    counters: Counters
    numerics: str
    keeping: AnswerKeeping = field(default_factory=AnswerKeeping)
    next_id: int = 1
    suspects: Suspects = field(default_factory=Suspects)
    # A heap; those of requests that have ended stay in it until they are most of it.
    _deadlines: list[tuple[float, int]] = field(default_factory=list)

    def enter(self, request: Request) -> None:
        """Let a request in; its id is `next_id`.

        Raises:
            Busy: too many requests are in flight.
        """
        self.admission.enter(request.priority is Priority.BULK)
        self.next_id += 1
        self.open[request.id] = request
        heapq.heappush(self._deadlines, (request.deadline_s, request.id))

    def guard(
        self, request: Request, now_s: float, work: Callable[[*Args], None], *args: *Args
    ) -> None:
        """Do work for a request; an exception in it ends that request, and no other."""
        try:
            work(*args)
        except HeddleError as error:
            self.fail(request, error, now_s)
        except Exception as error:
            log.exception("request %d broke an invariant", request.id)
            self.fail(request, InternalError(f"{type(error).__name__}: {error}"), now_s)

    def finish(self, request: Request, now_s: float) -> None:
        """End a request whose primitives are all complete with its answer."""
        answer = build_answer(request, self.numerics, now_s)
        self.keeping.keep(request, answer, now_s)
        self.counters.finished += 1
        self.suspects.clear(request)
        self._end(request, now_s)
        request.sink(answer)

    def fail(self, request: Request, error: HeddleError, now_s: float) -> None:
        """End a request with an error; one that has ended is left alone."""
        if request.is_ended:
            return
        self.counters.failed += 1
        self._end(request, now_s)
        request.sink(RequestFailed(error))

    def expire(self, now_s: float) -> None:
        """Fail the requests whose deadline has passed."""
        while self._deadlines:
            deadline_s, request_id = self._deadlines[0]
            request = self.open.get(request_id)
            if request is not None and deadline_s > now_s:
                return
            heapq.heappop(self._deadlines)
            if request is not None:
                patience_s = request.deadline_s - request.arrival_s
                kinds = ", ".join(sorted(kind.value for kind in request.kinds_open()))
                error = DeadlineExceeded(f"no answer within {patience_s:g} s; still in: {kinds}")
                self.fail(request, error, now_s)

    def refuse_suspects(self, now_s: float) -> None:
        """Fail the requests with the same inputs as one that was found to end lanes."""
        if not self.suspects.are_any:
            return
        for request in list(self.open.values()):
            if self.suspects.suspected(request) is not None:
                self.guard(request, now_s, self.suspects.check_open, request, now_s)

    @property
    def next_deadline_s(self) -> float:
        """When `expire` has to be called at the latest [s]."""
        return self._deadlines[0][0] if self._deadlines else float("inf")

    def _end(self, request: Request, now_s: float) -> None:
        request.is_ended = True
        del self.open[request.id]
        self.dispatcher.withdraw(request)
        request.runs.clear()
        if request.function_run is not None:
            request.function_run.close()
        self.admission.leave(request.priority is Priority.BULK, now_s)
        if len(self._deadlines) > 2 * len(self.open) + ENDED_DEADLINES:
            self._deadlines = [(one.deadline_s, one.id) for one in self.open.values()]
            heapq.heapify(self._deadlines)
