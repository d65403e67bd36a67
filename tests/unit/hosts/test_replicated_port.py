"""Equal lanes behind one port: who gets a task, and what happens when a lane stalls or dies."""

import math

import numpy as np
import pytest

from heddle.core.commands import Admit, Cancel, Steer
from heddle.core.frames import Cancelled, Done, Failed, Frame, Progress
from heddle.core.payloads import IngestPayload, SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.hosts.replicated_port import FAILED_MAX, HEDGE_S_MIN, ReplicatedPort
from tests.helpers.fake_ports import VECTOR, FakePort, ManualClock


class Replicas:
    """The port over lanes that answer when told to, and what the runtime hears."""

    def __init__(self, count=2):
        self.clock = ManualClock()
        self.lanes = [FakePort(f"vector-{n}", VECTOR) for n in range(count)]
        for lane in self.lanes:
            lane.holds = lambda task: True
        self.down = set()
        self.port = ReplicatedPort(
            "vector", self.lanes, lambda port: port.name not in self.down, self.clock
        )
        self.heard = []
        self._next = 0

    def search(self, rows=1, request=0):
        payload = SearchPayload(np.zeros((rows, 2), np.float32), 2)
        return self.admit(PrimitiveKind.SEARCHING, payload, request)

    def admit(self, kind, payload, request=0):
        self._next += 1
        self.port.send(Admit(Task(self._next, kind, Identity(request, "find"), payload)))
        return self._next

    def read(self, after_s=0.0):
        self.clock.time_s += after_s
        for frame in self.port.frames():
            assert (frame.lane, frame.number) == ("vector", 0)
            self.heard += frame.events
        return self.heard

    def answer(self, number, task_id, after_s=0.0):
        self.clock.time_s += after_s
        self.lanes[number].answer(task_id)
        return self.read()

    def open(self):
        return [sorted(lane.open) for lane in self.lanes]


def test_tasks_go_where_least_is_under_way():
    replicas = Replicas()
    replicas.search(rows=3)
    for _ in range(4):
        replicas.search()
    assert replicas.open() == [[1, 5], [2, 3, 4]]
    replicas.answer(0, 1)
    replicas.search()
    assert replicas.open() == [[5, 6], [2, 3, 4]]


def test_a_slow_lane_gets_fewer():
    replicas = Replicas()
    replicas.search()
    replicas.search()
    replicas.answer(1, 2, after_s=0.01)
    replicas.answer(0, 1, after_s=0.03)
    for _ in range(5):
        replicas.search()
    assert [len(tasks) for tasks in replicas.open()] == [1, 4]


def test_a_lane_that_is_down_gets_nothing_unless_all_are():
    replicas = Replicas()
    replicas.down = {"vector-0"}
    replicas.search()
    assert replicas.open() == [[], [1]]
    replicas.down = {"vector-0", "vector-1"}
    replicas.search()
    assert replicas.open() == [[2], [1]]


def test_what_a_request_failed_at_goes_to_the_other_lane():
    replicas = Replicas()
    task = replicas.search(request=7)
    replicas.lanes[0].fail(task)
    assert replicas.read() == [Failed(task, "it broke")]
    assert replicas.search(request=7) in replicas.lanes[1].open
    assert replicas.search(request=8) in replicas.lanes[0].open


def test_only_the_newest_failures_are_remembered():
    replicas = Replicas()
    for request in range(FAILED_MAX + 1):
        replicas.lanes[0].fail(replicas.search(request=request))
        replicas.read()
    assert replicas.search(request=1) in replicas.lanes[1].open
    assert replicas.search(request=0) in replicas.lanes[0].open


def test_each_lane_s_events_count_once_and_from_its_own_tasks_only():
    replicas = Replicas()
    task = replicas.search()
    replicas.lanes[1].deliver(Frame("vector-1", 1, 0.0, (Failed(task, "not mine"),)))
    assert replicas.read() == []
    replicas.lanes[0].post(Progress(task, fraction=0.5))
    replicas.answer(0, task)
    replicas.lanes[0].deliver(Frame("vector-0", 1, 0.0, (Failed(task, "again"),)))
    progress, done = replicas.read()
    assert (progress.fraction, done.task_id) == (0.5, task)


def test_cancels_and_steers_reach_the_lane_that_has_the_task():
    replicas = Replicas()
    replicas.search()
    task = replicas.search()
    replicas.port.send(Steer(task_id=task))
    replicas.port.send(Cancel(task))
    replicas.port.send(Cancel(99))
    assert [len(lane.sent(Cancel)) for lane in replicas.lanes] == [0, 1]
    assert [len(lane.sent(Steer)) for lane in replicas.lanes] == [0, 1]
    assert replicas.read() == [Cancelled(task)]
    replicas.port.send(Steer(budget_s=0.1))
    assert [len(lane.sent(Steer)) for lane in replicas.lanes] == [1, 2]


class TestHedges:
    def late(self, replicas):
        """Have one search answered in 0.1 s, and another wait for longer than four times that."""
        replicas.answer(0, replicas.search(), after_s=0.1)
        task = replicas.search(request=1)
        number = next(n for n, lane in enumerate(replicas.lanes) if task in lane.open)
        assert math.isfinite(replicas.port.due_s)
        due_s = replicas.port.due_s - replicas.clock.time_s
        replicas.read(after_s=due_s - 0.001)
        assert replicas.port.hedges == 0
        replicas.read(after_s=0.002)
        return task, number, 1 - number

    def test_a_late_search_goes_to_the_other_lane_too_and_the_first_answer_counts(self):
        replicas = Replicas()
        task, first, second = self.late(replicas)
        assert task in replicas.lanes[second].open
        replicas.answer(second, task)
        assert [c.task_id for c in replicas.lanes[first].sent(Cancel)] == [task]
        replicas.read()
        assert [type(event) for event in replicas.heard] == [Done, Done]
        assert replicas.port.tasks_by_lane == {"vector-0": 0, "vector-1": 0}

    def test_the_lane_that_had_it_first_may_still_be_first(self):
        replicas = Replicas()
        task, first, second = self.late(replicas)
        replicas.answer(first, task)
        assert [c.task_id for c in replicas.lanes[second].sent(Cancel)] == [task]
        assert [type(event) for event in replicas.read()] == [Done, Done]

    def test_a_failure_counts_only_if_nobody_else_has_it(self):
        replicas = Replicas()
        task, first, second = self.late(replicas)
        replicas.lanes[first].fail(task, "lane lost")
        assert len(replicas.read()) == 1
        replicas.lanes[second].fail(task, "lane lost, too")
        assert replicas.read()[1:] == [Failed(task, "lane lost, too")]

    def test_a_busy_lane_or_one_that_is_down_gets_none(self):
        for down in (set(), {"vector-1"}):
            replicas = Replicas()
            replicas.search()
            if not down:
                replicas.search()
            replicas.down = down
            replicas.read(after_s=9.0)
            assert replicas.port.hedges == 0
            assert replicas.port.due_s == math.inf  # else the runtime would ask again at once

    def test_one_that_is_late_goes_to_a_lane_once_that_is_idle(self):
        replicas = Replicas()
        late = replicas.search()
        other = replicas.search()
        replicas.read(after_s=9.0)
        assert replicas.open() == [[late], [other]]
        replicas.answer(1, other)
        assert replicas.open() == [[late], [late]]

    def test_they_are_few(self):
        replicas = Replicas(count=4)
        for _ in range(3):
            replicas.search()
        replicas.read(after_s=9.0)
        assert replicas.port.hedges == 1
        assert replicas.port.due_s == math.inf

    def test_what_changes_the_corpus_is_never_done_twice(self):
        replicas = Replicas()
        payload = IngestPayload(np.zeros(1, np.int64), np.zeros((1, 2), np.float32))
        replicas.admit(PrimitiveKind.INGESTION, payload)
        assert replicas.port.due_s == math.inf
        replicas.read(after_s=9.0)
        assert replicas.open() == [[1], []]

    def test_a_cancelled_search_is_none(self):
        replicas = Replicas()
        for lane in replicas.lanes:
            lane.on_cancel = None
        replicas.port.send(Cancel(replicas.search()))
        assert replicas.port.due_s == math.inf

    def test_before_any_answer_it_waits_a_little(self):
        replicas = Replicas()
        replicas.search()
        assert replicas.port.due_s == HEDGE_S_MIN


def test_it_tells_of_all_lanes_together():
    replicas = Replicas()
    assert replicas.port.credits.total == 128
    assert replicas.port.kinds == VECTOR
    assert replicas.port.epoch == 2
    replicas.lanes[1].lose_lane()
    assert replicas.port.epoch == 3
    with pytest.raises(ValueError, match="needs a lane"):
        ReplicatedPort("vector", (), lambda _: True, replicas.clock)
