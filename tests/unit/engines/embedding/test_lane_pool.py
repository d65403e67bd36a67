"""Two lanes as one engine: one terminal event a task, refused at once or not at all."""

import math
from functools import partial

import numpy as np
import pytest

from heddle.core.call_order import SHORTEST_FIRST, CallOrder, FirstServed
from heddle.core.commands import Admit, Cancel, Steer
from heddle.core.credits import Credits
from heddle.core.errors import Busy, InputError
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Failed
from heddle.core.payloads import DecodePayload, EmbedPayload, Sampling
from heddle.core.ports import EnginePort, Timed
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.tasks import Identity, Priority, Task
from heddle.costs.batch_cost import BatchCost
from heddle.costs.lane_cost import LaneCost
from heddle.costs.late_guard import LateGuard
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.embedding import queue_manager
from heddle.engines.embedding.engine import EmbeddingEngine
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.lane_queue import LaneQueue
from heddle.engines.embedding.queue_manager import QueueManager
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.hosts.inline import InlineHost
from tests.helpers.exact_embedder import ExactWorker, Time

COSTS = {"fast": BatchCost(7e-3, 3e-4), "slow": BatchCost(9e-3, 9e-4)}
LIMITS = BatchLimits(512, 64, 256)
TEXT = "x" * 200
STEP_TEXTS = 8  # of which a step takes no more
LANES_TAKE = 6  # bulk tasks of as many, two steps and what is begun on each lane


class Rig:
    def __init__(self, limits: BatchLimits = LIMITS, order: CallOrder = SHORTEST_FIRST) -> None:
        self.clock = Time()
        self.hosts = []
        for name, cost in COSTS.items():
            worker = ExactWorker(cost)
            engine = EmbeddingEngine(name, 1, worker, worker.clock, limits=limits, order=order)
            self.hosts.append(InlineHost(engine, 512, self.clock))
        queues = [
            LaneQueue(n, LaneCost(n, c), 512, 512, guard=LateGuard(1.0)) for n, c in COSTS.items()
        ]
        self.manager = QueueManager(queues)
        self.down: set[str] = set()
        self.woken = 0
        self.pool = LanePool(
            "embedding",
            self.hosts,
            self.manager,
            TokenEstimate(256),
            self.clock,
            is_up=lambda port: port.name not in self.down,
            credits=Credits(1024),
        )
        self.pool.subscribe(self.wake)
        self.submit = partial(self.pool.submit, next_request=1)

    def wake(self) -> None:
        self.woken += 1

    def run(self) -> list[Event]:
        """Step all lanes until nothing is left; return the events that the runtime received."""
        told: list[Event] = []
        while any([host.step_once(self.clock.time_s) for host in self.hosts]):
            told += self.told()
        return told + self.told()

    @property
    def is_idle(self) -> bool:
        """Whether no lane has a task, and none waits for a lane."""
        return (
            not any(self.pool.tasks_by_lane.values())
            and not any(lane.rows for lane in self.manager.lanes)
            and self.manager.held == 0
        )

    def told(self) -> list[Event]:
        return [event for frame in self.pool.frames() for event in frame.events]

    def admit(
        self,
        task_id: int,
        texts: int,
        priority: Priority = Priority.NORMAL,
        seconds_left: float = math.inf,
    ) -> None:
        payload = EmbedPayload((TEXT,) * texts)
        identity = Identity(task_id, "n", priority=priority)
        task = Task(task_id, PrimitiveKind.EMBEDDING, identity, payload, seconds_left)
        self.pool.send(Admit(task, 0))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_it_is_an_engine_port(rig: Rig) -> None:
    port: EnginePort = rig.pool
    assert (port.name, port.kinds) == ("embedding", frozenset({PrimitiveKind.EMBEDDING}))


def test_each_task_of_the_runtime_ends_once_under_the_pools_name(rig: Rig) -> None:
    for task_id in range(1, 60):
        rig.admit(task_id, texts=1 + task_id % 7)
    told = [event for event in rig.run() if isinstance(event, TERMINAL)]
    assert sorted(event.task_id for event in told) == list(range(1, 60))
    assert all(isinstance(event, Done) for event in told)
    assert rig.manager.held == 0
    assert [lane.rows for lane in rig.manager.lanes] == [0, 0]


def test_both_lanes_work(rig: Rig) -> None:
    for task_id in range(1, 60):
        rig.admit(task_id, texts=1)
    assert all(lane.queries for lane in rig.manager.lanes)
    assert all(rig.pool.tasks_by_lane.values())


def test_by_request_what_is_submitted_is_as_old_as_the_next_request() -> None:
    rig = Rig(BatchLimits(512, 1, 256), CallOrder(FirstServed.REQUEST))
    rig.down.add("slow")
    ended: list[int] = []
    rig.admit(4, texts=1)
    for next_request in (5, 5, 7):
        rig.submit(
            EmbedPayload((TEXT,)),
            lambda event: ended.append(event.task_id),
            seconds_left=600,
            next_request=next_request,
        )
    rig.admit(6, texts=1)
    while any([host.step_once(rig.clock.time_s) for host in rig.hosts]):
        ended += [event.task_id for event in rig.told()]
    assert ended == [4, -1, -2, 6, -3]


def test_what_is_submitted_is_refused_at_once_and_the_others_are_answered(rig: Rig) -> None:
    ended: list[Event] = []
    waits_s: list[float] = []
    for _ in range(200):
        try:
            rig.submit(EmbedPayload((TEXT,)), ended.append, seconds_left=0.5)
        except Busy as busy:
            waits_s.append(busy.wait_s)
    assert len(waits_s) > 100
    assert all(0 < wait_s < 1 for wait_s in waits_s)
    assert rig.run() == []
    assert len(ended) == 200 - len(waits_s)
    assert all(isinstance(event, Done) for event in ended)


def test_a_request_that_was_admitted_waits_instead(rig: Rig) -> None:
    for _ in range(400):
        rig.admit(rig.manager.held + 1000 + _, texts=1)
    assert len([e for e in rig.run() if isinstance(e, Done)]) == 400


def test_its_load_is_that_of_all_lanes_and_what_waits_for_one(rig: Rig) -> None:
    for task_id in (1, 2, 3):
        rig.admit(task_id, texts=512, priority=Priority.BULK)
    for host in rig.hosts:
        host.step_once(0.0)
    load = rig.pool.frames()[-1].load
    assert load.waiting > 900, "one lane alone has 512 at most"
    rig.pool.send(Cancel(3))
    [frame] = rig.pool.frames()
    assert load.waiting - 512 <= frame.load.waiting < load.waiting - 400


def test_cancelling_a_held_task_and_a_sent_one(rig: Rig) -> None:
    for task_id in range(1, LANES_TAKE + 2):
        rig.admit(task_id, texts=STEP_TEXTS, priority=Priority.BULK)
    assert rig.manager.held == 1
    rig.pool.send(Cancel(LANES_TAKE + 1))
    assert rig.woken
    assert rig.told() == [Cancelled(LANES_TAKE + 1)]
    rig.pool.send(Cancel(1))
    told = rig.run()
    assert Cancelled(1) in told
    done = sorted(event.task_id for event in told if isinstance(event, Done))
    assert done == list(range(2, LANES_TAKE + 1))


def test_bulk_waits_while_lanes_have_queries(rig: Rig) -> None:
    ended: list[Event] = []
    for _ in range(40):
        rig.submit(EmbedPayload((TEXT,)), ended.append, seconds_left=2.0)
    rig.admit(1, texts=4, priority=Priority.BULK)
    assert rig.manager.held == 1
    assert [event.task_id for event in rig.run()] == [1]
    assert len(ended) == 40


def test_a_lane_that_is_down_gets_nothing_and_with_none_up_all_wait_for_one(rig: Rig) -> None:
    rig.down = {"fast"}
    ended: list[Event] = []
    rig.submit(EmbedPayload((TEXT,)), ended.append, seconds_left=1.0)
    assert [lane.queries for lane in rig.manager.lanes] == [0, 1]
    rig.down = {"fast", "slow"}
    rig.admit(1, texts=1)
    assert [event.task_id for event in rig.run()] == [1]


def test_it_learns_how_long_texts_are(rig: Rig) -> None:
    rig.pool.estimate.tokens_per_char = 0.1
    for task_id in range(1, 300):
        rig.admit(task_id, texts=1)
        rig.run()
    [result] = [TEXT]
    guess = rig.pool.estimate.shape((result,)).tokens
    assert guess == pytest.approx(52, rel=0.1)


def test_other_payloads_are_refused(rig: Rig) -> None:
    payload = DecodePayload(1, Sampling())
    task = Task(7, PrimitiveKind.DECODING, Identity(7, "n"), payload)
    rig.pool.send(Admit(task, 0))
    [event] = rig.told()
    assert isinstance(event, Failed)
    assert event.is_input


def test_steering_reaches_the_lanes_and_unknown_tasks_are_ignored(rig: Rig) -> None:
    rig.admit(1, texts=2)
    rig.pool.send(Steer(budget_s=0.05))
    rig.pool.send(Steer(task_id=1, priority=Priority.INTERACTIVE))
    rig.pool.send(Steer(task_id=99, priority=Priority.BULK))
    rig.pool.send(Cancel(99))
    [event] = rig.run()
    assert isinstance(event, Done)
    assert isinstance(event.result, Vectors)
    assert math.isinf(rig.manager.lanes[0].tokens_max)


def test_closing_fails_what_was_submitted(rig: Rig) -> None:
    ended: list[Event] = []
    rig.submit(EmbedPayload((TEXT,)), ended.append, seconds_left=5.0)
    rig.submit(EmbedPayload((TEXT,)), ended.append, seconds_left=5.0, priority=Priority.BULK)
    rig.admit(1, texts=1)
    rig.pool.close()
    assert [type(event) for event in ended] == [Failed, Failed]
    assert [event.task_id for event in rig.run()] == [1]


def test_what_waited_here_has_less_time_left_on_its_lane(rig: Rig) -> None:
    sent: list[float] = []
    for host in rig.hosts:
        host.send = lambda command: sent.append(command.task.seconds_left)
    payload = EmbedPayload((TEXT,) * STEP_TEXTS)
    for task_id in range(1, LANES_TAKE + 2):
        identity = Identity(task_id, "n", priority=Priority.BULK)
        rig.pool.send(
            Admit(Task(task_id, PrimitiveKind.EMBEDDING, identity, payload, seconds_left=60.0), 0)
        )
    rig.clock.time_s = 20.0
    rig.manager.end(1)
    rig.told()
    assert sent == [60.0] * LANES_TAKE + [40.0]


def test_what_a_lanes_memory_allows_a_step_gets_into_the_books() -> None:
    rig = Rig(BatchLimits(tokens_max=200))
    rig.submit(EmbedPayload((TEXT,)), lambda event: None, seconds_left=1.0)
    rig.run()
    fast, slow = rig.manager.lanes
    assert (fast.batch_tokens_max, fast.step_tokens) == (200, 200)
    assert slow.batch_tokens_max == 512  # it has told nothing yet


def test_lanes_that_take_more_at_once_are_sent_more(rig: Rig) -> None:
    rig.admit(1, 4 * STEP_TEXTS)
    assert sum(rig.pool.tasks_by_lane.values()) == 4
    rig.pool.cancel(1)
    rig.run()
    for lane in rig.manager.lanes:
        rig.manager.bound_steps(lane.name, 2048)
        assert lane.step_tokens == 2048
    rig.admit(2, 4 * STEP_TEXTS)
    assert sum(rig.pool.tasks_by_lane.values()) == 1


def many(count: int) -> EmbedPayload:
    return EmbedPayload(tuple(f"{number} {TEXT}" for number in range(count)))


def test_a_task_of_many_texts_is_answered_whole_and_in_order(rig: Rig) -> None:
    ended: list[Event] = []
    rig.submit(many(300), ended.append, seconds_left=600, priority=Priority.BULK)
    alone: list[Event] = []
    rig.run()
    for text in many(300).texts[:3]:
        rig.submit(EmbedPayload((text,)), alone.append, seconds_left=600)
    rig.run()
    [whole] = ended
    assert isinstance(whole, Done)
    assert isinstance(whole.result, Vectors)
    assert len(whole.result.values) == 300
    assert whole.result.tokens > 300
    expected = [event.result.values[0] for event in alone if isinstance(event, Done)]
    np.testing.assert_array_equal(whole.result.values[:3], expected)
    assert rig.is_idle


@pytest.mark.parametrize("priority", Priority)
def test_a_question_waits_for_a_few_steps_of_a_task_of_many_texts(
    rig: Rig, priority: Priority
) -> None:
    rig.admit(1, texts=500, priority=priority)
    for host in rig.hosts:
        host.step_once(0.0)
    rig.told()
    rig.admit(2, texts=1)
    steps = 0
    while not any(event.task_id == 2 for event in rig.told()):
        for host in rig.hosts:
            host.step_once(0.0)
        steps += 1
        assert steps <= 4
    assert [event.task_id for event in rig.run() if isinstance(event, TERMINAL)] == [1]


@pytest.mark.parametrize("ended_by", ["runtime", "caller"])
def test_a_task_in_parts_is_cancelled_whole(rig: Rig, ended_by: str) -> None:
    ended: list[Event] = []
    if ended_by == "runtime":
        rig.admit(1, texts=500)
        rig.pool.send(Cancel(1))
        ended = rig.told()
    else:
        task_id = rig.submit(many(500), ended.append, seconds_left=600)
        rig.pool.cancel(task_id)
    rig.run()
    assert [type(event) for event in ended] == [Cancelled]
    assert rig.is_idle


def test_a_task_in_parts_is_refused_whole(rig: Rig) -> None:
    with pytest.raises((Busy, InputError)):
        rig.submit(many(500), lambda event: None, seconds_left=0.1)
    rig.run()
    assert rig.is_idle


def test_a_closed_pool_fails_a_task_in_parts_once(rig: Rig) -> None:
    ended: list[Event] = []
    rig.submit(many(500), ended.append, seconds_left=600)
    rig.pool.close()
    assert [type(event) for event in ended] == [Failed]


def test_a_task_in_parts_is_steered_in_all_of_them(rig: Rig) -> None:
    rig.admit(1, texts=500, priority=Priority.BULK)
    rig.pool.send(Steer(task_id=1, priority=Priority.INTERACTIVE))
    assert isinstance(rig.run()[-1], Done)


def test_too_many_waiting_tasks_fail_one_in_parts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_manager, "HELD_MAX", 1)
    ended: list[Event] = []
    rig.submit(many(500), ended.append, seconds_left=600, priority=Priority.BULK)
    [failed] = ended
    assert isinstance(failed, Failed)
    assert "wait for a lane" in failed.message
    rig.run()
    assert rig.is_idle


def test_too_many_waiting_tasks_fail_one_of_the_runtime_and_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_manager, "HELD_MAX", 1)
    for task_id in range(1, LANES_TAKE + 2):
        rig.admit(task_id, texts=STEP_TEXTS, priority=Priority.BULK)
    assert rig.manager.held == 1
    woken = rig.woken
    rig.admit(99, texts=1)
    assert rig.woken > woken
    ends = {event.task_id: event for event in rig.run() if isinstance(event, TERMINAL)}
    failed = ends.pop(99)
    assert isinstance(failed, Failed)
    assert "wait for a lane" in failed.message
    assert [type(event) for event in ends.values()] == [Done] * (LANES_TAKE + 1)
    assert rig.is_idle


@pytest.mark.parametrize("texts", [1, 500])
def test_what_waits_longer_than_its_time_ends(rig: Rig, texts: int) -> None:
    for task_id in range(1, LANES_TAKE + 1):
        rig.admit(task_id, texts=STEP_TEXTS, priority=Priority.BULK)
    ended: list[Event] = []
    rig.submit(many(texts), ended.append, seconds_left=5.0, priority=Priority.BULK)
    rig.clock.time_s = 5.0
    rig.told()
    assert ended == []
    rig.clock.time_s = 5.1
    rig.told()
    assert [type(event) for event in ended] == [Cancelled]
    assert rig.manager.held == 0


@pytest.mark.parametrize("texts", [1, 500])
def test_what_its_lane_does_not_answer_in_time_ends_all_the_same(rig: Rig, texts: int) -> None:
    ended: list[Event] = []
    rig.submit(many(texts), ended.append, seconds_left=600.0)
    rig.clock.time_s = 600.0
    rig.told()
    assert ended == []
    rig.clock.time_s = 600.1
    assert rig.told() == []
    assert [type(event) for event in ended] == [Cancelled]
    rig.submit(many(1), ended.append, seconds_left=600.0)
    assert rig.run() == [], "what a lane says of an ended task reaches no caller"
    assert [type(event) for event in ended] == [Cancelled, Done]
    assert rig.is_idle


@pytest.mark.parametrize(("down", "stretches"), [(set(), True), (set(COSTS), False)])
def test_a_lane_learns_that_it_was_late_unless_it_was_away(
    rig: Rig, down: set[str], stretches: bool
) -> None:
    rig.submit(many(1), lambda event: None, seconds_left=5.0)
    rig.down, rig.clock.time_s = down, 5.1
    rig.told()
    assert any(lane.guard.stretch > 1.0 for lane in rig.manager.lanes) == stretches


def test_it_wants_to_be_read_when_the_first_time_is_over(rig: Rig) -> None:
    port: object = rig.pool
    assert isinstance(port, Timed)
    rig.admit(1, texts=1, seconds_left=1.0)
    assert port.due_s == math.inf, "the runtime sees to its own"
    for texts, seconds_left in ((1, 600.0), (500, 500.0), (1, 700.0)):
        rig.submit(many(texts), lambda event: None, seconds_left=seconds_left)
    assert port.due_s == 500.0
    for time_s, due_s in ((500.1, 600.0), (600.1, 700.0), (700.1, math.inf)):
        rig.clock.time_s = time_s
        rig.told()
        assert port.due_s == due_s


@pytest.mark.parametrize("texts", [1, 500])
def test_a_task_of_the_runtime_is_cancelled_by_the_runtime_alone(rig: Rig, texts: int) -> None:
    for task_id in range(1, LANES_TAKE + 1):
        rig.admit(task_id, texts=STEP_TEXTS, priority=Priority.BULK)
    rig.admit(99, texts, Priority.BULK, seconds_left=5.0)
    assert rig.manager.held, "it waits for a lane"
    rig.clock.time_s = 5.1
    assert rig.told() == []
    assert isinstance(next(event for event in rig.run() if event.task_id == 99), Done)
