"""Admission: promises are kept on exact lanes, nothing leaks, bursts are seen at once."""

import contextlib
import heapq
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import Busy, ConfigError, InputError
from heddle.core.tasks import Priority
from heddle.costs.batch_cost import BatchCost, BatchShape, queue_depth
from heddle.costs.lane_cost import LaneCost
from heddle.costs.late_guard import LateGuard
from heddle.engines.embedding.admission_policies import AdmissionPolicy, PredictedFinish, Windve
from heddle.engines.embedding.lane_queue import LaneQueue, Ticket
from heddle.engines.embedding.queue_manager import QueueManager

LENGTH = 75
FAST, SLOW = BatchCost(7e-3, 1.65e-4), BatchCost(9e-3, 5e-4)
BATCH = 512


def lane(
    name: str,
    cost: BatchCost = FAST,
    batch: float = BATCH,
    rows: int = 512,
    margin: float = 1.0,
    tokens_max: float = math.inf,
) -> LaneQueue:
    """Return a lane whose answers have shown that its predictions hold."""
    known = LaneCost(name, cost, margin)
    return LaneQueue(name, known, batch, rows, tokens_max, guard=LateGuard(1.0))


def query(
    number: int,
    deadline_s: float = math.inf,
    priority: Priority = Priority.NORMAL,
    length: int = LENGTH,
) -> Ticket:
    return Ticket(number, BatchShape.uniform(1, length), 1, deadline_s, priority)


def admitted_of(manager: QueueManager, count: int, deadline_s: float) -> dict[str, int]:
    found: dict[str, int] = {}
    for number in range(count):
        try:
            name = manager.admit(query(number, deadline_s), 0.0)
        except Busy:
            name = "busy"
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize(
    ("npu", "cpu", "slo_s", "depths"),
    [
        ((1 / 56, 1 - 40 / 56), (1 / 12, 1 - 8 / 12), 1.0, (40, 8)),
        ((1 / 56, 1 - 40 / 56), (1 / 12, 1 - 8 / 12), 2.0, (96, 20)),
        ((1 / 111, 1 - 84 / 111), (1 / 13, 1 - 2 / 13), 1.0, (84, 2)),
        ((1 / 111, 1 - 84 / 111), (1 / 13, 1 - 2 / 13), 2.0, (195, 15)),
    ],
)
@pytest.mark.parametrize("policy", ["windve", "predicted_finish"])
def test_a_burst_on_idle_lanes_is_algorithm_1(
    npu: tuple[float, float],
    cpu: tuple[float, float],
    slo_s: float,
    depths: tuple[int, int],
    policy: str,
) -> None:
    costs = [BatchCost.from_queries(alpha_s, beta_s, LENGTH) for alpha_s, beta_s in (npu, cpu)]
    lanes = [lane("npu", costs[0], 1e9), lane("cpu", costs[1], 1e9)]
    by_depth = Windve({q.name: queue_depth(q.cost.cost, slo_s, LENGTH).queries for q in lanes})
    manager = QueueManager(lanes, by_depth if policy == "windve" else PredictedFinish())
    # A hair more time than the SLO: depths that come out whole are whole but for rounding.
    found = admitted_of(manager, sum(depths) + 50, slo_s + 1e-6)
    assert (found["npu"], found["cpu"], found["busy"]) == (*depths, 50)


def test_without_spill_only_the_first_lane_is_used() -> None:
    manager = QueueManager([lane("fast"), lane("slow", SLOW)], heterogeneous=False)
    assert set(admitted_of(manager, 100, 0.25)) == {"fast", "busy"}


def test_spill_begins_where_the_slow_lane_is_done_first() -> None:
    manager = QueueManager([lane("fast"), lane("slow", SLOW)])
    slow = manager.lanes[1]
    names = [manager.admit(query(i, 1.0), 0.0) for i in range(20)]
    first = names.index("slow")
    assert names[:first] == ["fast"] * first
    before = QueueManager([lane("fast")])
    for number in range(first):
        before.admit(query(number, 1.0), 0.0)
    assert before.lanes[0].finish_s(query(99), 0.0) > slow.alone_s(query(99))
    before.end(first - 1)
    assert before.lanes[0].finish_s(query(99), 0.0) <= slow.alone_s(query(99))


def test_once_all_lanes_have_a_full_step_to_do_the_fastest_takes_what_it_can() -> None:
    manager = QueueManager([lane("fast"), lane("slow", SLOW)])
    fast, slow = manager.lanes
    for number in range(20):
        fast.add(query(number), 0.0)
    slow.add(query(20), 0.0)
    finishes = [q.finish_s(query(99), 0.0) for q in (fast, slow)]
    assert finishes[1] < min(finishes[0], fast.full_step_s)
    assert manager.admit(query(99, 1.0), 0.0) == "slow"
    slow.add(query(21), 0.0)
    assert slow.finish_s(query(98), 0.0) > fast.full_step_s
    assert manager.admit(query(98, 1.0), 0.0) == "fast"
    assert manager.admit(query(97, finishes[0]), 0.0) == "slow", "the fast one would be late"


class Worker:
    """An exact lane: a queue served by class and age, in steps that take what the cost says."""

    def __init__(self, queue: LaneQueue, cost: BatchCost) -> None:
        self.queue, self.cost = queue, cost
        self.waiting: list[Ticket] = []
        self.running: list[Ticket] = []

    def begin(self) -> float:
        self.waiting.sort(key=lambda t: (t.priority, t.id))
        tokens = 0.0
        while self.waiting and tokens + self.waiting[0].shape.tokens <= BATCH:
            if self.running and self.waiting[0].priority != self.running[0].priority:
                break
            self.running.append(self.waiting.pop(0))
            tokens += self.running[-1].shape.tokens
        squares = sum(t.shape.squares for t in self.running)
        return self.cost.predict_s(BatchShape(tokens, squares))


arrivals = st.lists(
    st.tuples(
        st.floats(0, 0.03),
        st.integers(8, 200),
        st.floats(0.05, 1.0),
        st.sampled_from([Priority.INTERACTIVE, Priority.NORMAL]),
    ),
    min_size=1,
    max_size=120,
)


@settings(max_examples=80)
@given(arrivals=arrivals)
def test_every_promise_is_kept_by_exact_lanes(arrivals) -> None:
    """Open traffic of two classes and all lengths; packing may cost one step at most."""
    queues = [lane("fast"), lane("slow", SLOW)]
    workers = {q.name: Worker(q, c) for q, c in zip(queues, (FAST, SLOW), strict=True)}
    manager = QueueManager(queues)
    events: list[tuple[float, int, object]] = []
    now_s, order = 0.0, 0
    for gap_s, length, slo_s, priority in arrivals:
        now_s, order = now_s + gap_s, order + 1
        ticket = query(order, now_s + slo_s, priority, length)
        heapq.heappush(events, (now_s, order, ticket))
    answered = refused = 0
    while events:
        now_s, _, event = heapq.heappop(events)
        if isinstance(event, Ticket):
            try:
                worker = workers[manager.admit(event, now_s)]
            except (Busy, InputError):
                refused += 1
                continue
            worker.waiting.append(event)
            if worker.running:
                continue
        else:
            worker = event
            for ticket in worker.running:
                manager.end(ticket.id)
                answered += 1
                step_s = worker.cost.predict_s(BatchShape.uniform(1, BATCH))
                assert now_s <= ticket.deadline_s + step_s
            worker.running = []
            manager.step_ended(worker.queue.name, BatchShape(0, 0), 0.0, now_s)
        if worker.waiting:
            order += 1
            heapq.heappush(events, (now_s + worker.begin(), order, worker))
    assert answered + refused == len(arrivals)
    assert [(q.rows, q.queries, q.step_began_s) for q in queues] == [(0, 0, None)] * 2


def admit_or_refuse(manager: QueueManager, ticket: Ticket) -> Busy | InputError | None:
    try:
        manager.admit(ticket, 0.0)
    except (Busy, InputError) as refusal:
        return refusal
    return None


@settings(max_examples=60)
@given(
    loads=st.lists(st.tuples(st.integers(8, 400), st.floats(0.02, 3.0)), max_size=60),
    length=st.integers(8, 400),
    slo_s=st.floats(0.02, 3.0),
)
def test_who_comes_again_after_the_wait_is_admitted_by_lanes_that_went_on(
    loads, length: int, slo_s: float
) -> None:
    manager = QueueManager([lane("fast", batch=1e9)])
    for number, (tokens, limit_s) in enumerate(loads):
        with contextlib.suppress(Busy, InputError):
            manager.admit(query(number, limit_s, length=tokens), 0.0)
    refused = admit_or_refuse(manager, query(1000, slo_s, length=length))
    if isinstance(refused, Busy):
        assert 0 < refused.wait_s <= 3.1
        for number in range(len(loads)):
            manager.end(number)  # after `wait_s` the lane has finished
        manager.admit(query(1000, refused.wait_s + slo_s, length=length), refused.wait_s)
    elif refused is not None:
        assert FAST.predict_s(BatchShape.uniform(1, length)) > slo_s


def test_a_burst_sees_its_own_reservations() -> None:
    manager = QueueManager([lane("fast")])
    found = admitted_of(manager, 1000, 0.25)
    assert found["fast"] == pytest.approx(queue_depth(FAST, 0.25, LENGTH).queries, abs=2)


def test_what_no_lane_can_do_is_the_callers_fault_and_names_the_fix() -> None:
    manager = QueueManager([lane("fast"), lane("slow", SLOW)])
    with pytest.raises(InputError, match=r"give at least 0\.019"):
        manager.admit(query(1, 0.01), 0.0)


def test_cancelling_frees_the_place_on_a_lane_and_in_the_queue() -> None:
    manager = QueueManager([lane("fast", rows=1)])
    manager.admit(query(1), 0.0)
    manager.hold(query(2))
    manager.hold(query(3))
    manager.end(2)
    assert manager.held == 1
    assert list(manager.place_held(0.0)) == []
    manager.end(1)
    assert [ticket.id for ticket, _ in manager.place_held(0.0)] == [3]


def test_urgent_queries_may_not_make_admitted_ones_late() -> None:
    manager = QueueManager([lane("fast")])
    for number in range(12):
        manager.admit(query(number, 0.25), 0.0)
    urgent = (query(number, 0.25, Priority.INTERACTIVE) for number in range(100, 120))
    assert any(isinstance(admit_or_refuse(manager, ticket), Busy) for ticket in urgent)
    last = manager.lanes[0].finish_s(query(999, length=1), 0.0)
    assert last <= 0.25 + FAST.predict_s(BatchShape.uniform(1, LENGTH))


def test_urgent_queries_are_not_held_up_by_patient_ones() -> None:
    manager = QueueManager([lane("fast")])
    for number in range(50):
        manager.admit(query(number, 60.0), 0.0)
    manager.admit(query(100, 0.05, Priority.INTERACTIVE), 0.0)


def test_bulk_fills_two_steps_and_only_what_queries_leave() -> None:
    manager = QueueManager([lane("fast")])
    for number in range(40):
        manager.hold(query(number, priority=Priority.BULK))
    placed = list(manager.place_held(0.0))
    assert 2 * BATCH <= sum(t.shape.tokens for t, _ in placed) < 2 * BATCH + LENGTH
    for ticket, _ in placed:
        manager.end(ticket.id)
    manager.admit(query(100, 1.0), 0.0)
    assert list(manager.place_held(0.0)) == []
    manager.end(100)
    assert list(manager.place_held(0.0))


def test_what_must_not_be_refused_waits_while_it_has_time_and_goes_when_it_has_none() -> None:
    manager = QueueManager([lane("fast")])
    admitted_of(manager, 100, 0.25)
    on_lane = list(manager.lanes[0].classes[Priority.NORMAL].tickets)
    manager.hold(query(500, 0.3))
    assert list(manager.place_held(0.0)) == []
    for number in on_lane:
        manager.end(number)
    assert [t.id for t, _ in manager.place_held(0.29)] == [500]


def test_a_deadline_that_is_lost_keeps_nobody_out() -> None:
    manager = QueueManager([lane("fast")])
    manager.hold(query(1, 0.1))
    assert [t.id for t, _ in manager.place_held(0.2)] == [1]
    assert manager.admit(query(2, 0.5), 0.2) == "fast"
    manager.answered(1, 0.3)
    assert manager.lanes[0].guard.stretch == 1  # it was no promise


def test_a_lane_that_was_late_takes_less_and_alone_as_much_as_ever() -> None:
    manager = QueueManager([lane("fast")])
    before = admitted_of(manager, 60, 0.25)["fast"]
    for number in range(before):
        manager.answered(number, 0.3)
    assert manager.lanes[0].guard.stretch > 2
    assert 1 <= admitted_of(manager, 60, 0.25)["fast"] < 0.6 * before
    for number in range(60):
        manager.end(number)
    alone = query(99)
    assert manager.lanes[0].finish_s(alone, 0.0) == manager.lanes[0].alone_s(alone)
    manager.admit(query(99, 0.02), 0.0)


@pytest.mark.parametrize(("margin", "goes_in"), [(1.0, False), (2.0, True)])
def test_what_is_not_expected_of_a_mates_bound_is_slack_for_others(
    margin: float, goes_in: bool
) -> None:
    """Three queries take 44 ms, and the first has 50 ms: by the bound of 2 not for the third."""
    manager = QueueManager([lane("a", margin=margin)])
    manager.admit(query(1, 0.05), 0.0)
    manager.admit(query(2, 1.0), 0.0)
    slow = query(3, 1.0, length=100 if margin > 1 else 300)
    assert (admit_or_refuse(manager, slow) is None) is goes_in


def test_a_lane_that_is_new_takes_less_than_one_that_was_always_in_time() -> None:
    known = admitted_of(QueueManager([lane("a")]), 60, 0.25)["a"]
    new = LaneQueue("a", LaneCost("a", FAST), BATCH, 512)
    assert 1 <= admitted_of(QueueManager([new]), 60, 0.25)["a"] < known


def test_a_lost_lane_gets_nothing() -> None:
    manager = QueueManager([lane("fast"), lane("slow", SLOW)])
    manager.set_up("fast", is_up=False)
    assert manager.admit(query(1, 1.0), 0.0) == "slow"
    manager.set_up("fast", is_up=True)
    assert manager.admit(query(2, 1.0), 0.0) == "fast"


def test_memory_bounds_a_lane_that_would_have_the_time() -> None:
    small = lane("gpu", tokens_max=3 * LENGTH)
    assert admitted_of(QueueManager([small]), 10, 10.0) == {"gpu": 3, "busy": 7}


@pytest.mark.parametrize("policy", [PredictedFinish(), Windve({"a": 1})])
def test_lanes_need_names_of_their_own(policy: AdmissionPolicy) -> None:
    with pytest.raises(ConfigError, match="different names"):
        QueueManager([lane("a"), lane("a")], policy)


def test_where_every_lane_is_closed_coming_again_is_no_use() -> None:
    manager = QueueManager([lane("npu"), lane("cpu", SLOW)], Windve({"npu": 0, "cpu": 0}))
    with pytest.raises(InputError, match=r"npu, cpu closed \(depth 0\); give a longer SLO"):
        manager.admit(query(1, 10.0), 0.0)


def test_depths_that_make_no_sense_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="lane 'npu' is -1: at least 0"):
        Windve({"npu": -1})
    manager = QueueManager([lane("npu"), lane("cpu")], Windve({"npu": 0}))
    with pytest.raises(ConfigError, match="depths names npu, and not the embedding lane 'cpu'"):
        manager.admit(query(1, 10.0), 0.0)
