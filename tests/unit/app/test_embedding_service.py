"""The embedding service of a server: vectors, shorter ones, refusals that name the fix."""

import math
from concurrent.futures import Future

import numpy as np
import pytest

from heddle.app.embedding_service import EmbeddingService, checked_texts, shortened
from heddle.app.observe.server_state import EmbeddingLaneState
from heddle.app.observe.tally import Outcome
from heddle.core.errors import (
    Busy,
    Cancelled,
    DeadlineExceeded,
    EngineError,
    InputError,
    Unreachable,
)
from heddle.core.frames import Cancelled as CancelledEvent
from heddle.core.frames import Done, Event, Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.results import Vectors
from heddle.core.tasks import Priority
from heddle.costs.batch_cost import BatchCost, BatchShape
from heddle.costs.lane_cost import CostChange, LaneCost
from heddle.engines.embedding.lane_queue import LaneQueue, Ticket
from heddle.engines.embedding.queue_manager import QueueManager
from tests.helpers.fake_ports import ManualClock

VALUES = np.array([[3.0, 4.0, 12.0], [0.0, 1.0, 0.0]], np.float32)


class Directory:
    def check_dims(self, dims: int) -> None:
        if dims not in (2, 3):
            raise InputError(f"dimensions={dims}")


class Pool:
    """Answers at once with its scripted event."""

    def __init__(self, event: Event | None) -> None:
        self.event, self.calls, self.given_back = event, [], []

    def submit(self, payload: EmbedPayload, on_end, **settings: object) -> int:
        self.calls.append((payload, settings))
        self.on_end = on_end
        if self.event is not None:
            on_end(self.event)
        return -1


def served(pool: Pool) -> EmbeddingService:
    return EmbeddingService(pool, Directory(), pool.given_back.append, ManualClock())


def submit(pool: Pool, dimensions: int | None = None) -> Future[Vectors]:
    return ask(served(pool), dimensions)


def ask(
    service: EmbeddingService, dimensions: int | None = None, seconds_left: float = 1.0
) -> Future[Vectors]:
    return service.submit(
        EmbedPayload(("a", "b")),
        seconds_left=seconds_left,
        priority=Priority.BULK,
        tenant="t",
        dimensions=dimensions,
        next_request=7,
    )


def test_what_is_asked_reaches_the_lanes_and_the_vectors_come_back() -> None:
    pool = Pool(Done(-1, Vectors(VALUES, tokens=7)))
    assert submit(pool).result().tokens == 7
    [(payload, settings)] = pool.calls
    assert payload.texts == ("a", "b")
    asked = {"seconds_left": 1.0, "priority": Priority.BULK, "tenant": "t", "next_request": 7}
    assert settings == asked


def test_a_cancelled_future_gives_the_place_back_and_ignores_the_answer() -> None:
    pool = Pool(None)
    answer = submit(pool)
    assert answer.cancel()
    assert pool.given_back == [-1]
    pool.on_end(CancelledEvent(-1))
    assert answer.cancelled()
    done = Pool(Done(-1, Vectors(VALUES)))
    submit(done).result()
    assert done.given_back == []


def test_shorter_vectors_have_length_one_again() -> None:
    result = submit(Pool(Done(-1, Vectors(VALUES))), dimensions=2).result()
    np.testing.assert_allclose(result.values, [[0.6, 0.8], [0.0, 1.0]], atol=1e-6)
    np.testing.assert_array_equal(shortened(Vectors(np.zeros((1, 3), np.float32)), 2).values, 0)


def test_the_state_says_what_each_lane_holds_and_costs() -> None:
    queue = LaneQueue("fast", LaneCost("fast", BatchCost(7e-3, 3e-4), 1.1), 512, 64)
    manager = QueueManager([queue])
    manager.admit(Ticket(1, BatchShape.uniform(1, 75)), 0.0)
    pool = Pool(Done(-1, Vectors(VALUES)))
    pool.manager = manager
    service = served(pool)
    found = service.state().lanes["fast"]
    assert (found.queries, found.margin, found.refits) == (1, 1.1, {})
    queue.cost.refits[CostChange.DRIFT] = 2
    state = service.state()
    assert (state.held, state.outcomes) == (0, {})
    expected = EmbeddingLaneState(1, 7e-3, 3e-4, 1.1, queue.guard.stretch, 0.0, {"drift": 2})
    assert state.lanes == {"fast": expected}


def test_how_embeddings_end_is_counted() -> None:
    pool = Pool(None)
    service = served(pool)
    ends = [
        (Done(-1, Vectors(VALUES)), 1.0, Outcome.ANSWERED),
        (Done(-1, Vectors(VALUES)), 1.5, Outcome.LATE),
        (Failed(-1, "bad text", is_input=True), 0.0, Outcome.REFUSED),
        (Failed(-1, "the lane was lost"), 0.0, Outcome.FAILED),
        (CancelledEvent(-1), 0.0, Outcome.CANCELLED),
    ]
    for event, seconds, _ in ends:
        ask(service)
        service.clock.time_s += seconds
        pool.on_end(event)
    assert service.outcomes == {outcome: 1 for _, _, outcome in ends}


def test_what_has_no_vectors_when_its_time_is_over_is_late() -> None:
    pool = Pool(None)
    service = served(pool)
    answer = ask(service)
    service.clock.time_s += 1.5
    pool.on_end(CancelledEvent(-1))
    with pytest.raises(DeadlineExceeded, match="deadline passed before a lane had answered"):
        answer.result()
    assert service.outcomes == {Outcome.LATE: 1}


def test_what_is_not_let_in_is_counted() -> None:
    class Full(Pool):
        def submit(self, payload: EmbedPayload, on_end, **settings: object) -> int:
            raise Busy("the embedding lanes can't answer in time", wait_s=1.0)

    service = served(Full(None))
    with pytest.raises(Busy):
        ask(service)
    with pytest.raises(InputError):
        ask(service, dimensions=5)
    assert service.outcomes == {Outcome.BUSY: 1, Outcome.REFUSED: 1}


@pytest.mark.parametrize("seconds_left", [0.0, -1.0, math.nan])
def test_a_deadline_that_is_no_time_is_refused(seconds_left: float) -> None:
    service = served(Pool(Done(-1, Vectors(VALUES))))
    with pytest.raises(InputError, match="deadline_s must be positive"):
        ask(service, seconds_left=seconds_left)
    assert service.outcomes == {Outcome.REFUSED: 1}


def test_a_length_that_the_model_lacks_starts_nothing() -> None:
    pool = Pool(Done(-1, Vectors(VALUES)))
    with pytest.raises(InputError, match="dimensions=5"):
        submit(pool, dimensions=5)
    assert pool.calls == []


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Failed(-1, "bad text", is_input=True), InputError),
        (Failed(-1, "the lane was lost"), EngineError),
        (Failed(-1, "the database is away", is_away=True), Unreachable),
        (CancelledEvent(-1), Cancelled),
    ],
)
def test_failures_are_the_errors_of_their_kind(event: Event, error: type[Exception]) -> None:
    with pytest.raises(error):
        submit(Pool(event)).result()


@pytest.mark.parametrize("texts", [[], "one text", ["a", 3]])
def test_what_is_no_list_of_texts_is_refused(texts: object) -> None:
    with pytest.raises(InputError):
        checked_texts(texts)
