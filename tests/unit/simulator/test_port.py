"""A simulated lane: steps take time, commands wait for them, and every fault does its harm."""

import random

import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.frames import Cancelled, Done, Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.embedding.engine import EmbeddingEngine
from heddle.runtime.supervision import is_death
from heddle.simulator.cost_model_embedding import CostModelEmbeddingWorker
from heddle.simulator.faults import NO_FAULTS, Fault, FaultRates, FaultSource
from heddle.simulator.port import (
    DELAY_S,
    NOTICED_S_MAX,
    RESTART_S,
    SLOW_START_S,
    SimulatedLane,
    SimulatedPort,
)
from heddle.simulator.timeline import Timeline

LATENCY_S = 0.001


def build(name, epoch, device):
    return EmbeddingEngine(name, epoch, CostModelEmbeddingWorker(device), device)


def port_with(rates=NO_FAULTS):
    lane = SimulatedLane("embedding", build, 8, LATENCY_S, rates)
    return SimulatedPort(lane, Timeline(), random.Random(1))


def admit(task_id):
    payload = EmbedPayload((f"text {task_id}",))
    return Admit(Task(task_id, PrimitiveKind.EMBEDDING, Identity(task_id, "n"), payload))


def run(port):
    """Run to the end; return (time, frame) of every frame that arrived."""
    frames = []
    port.subscribe(lambda: frames.extend((port.timeline.now_s(), f) for f in port.frames()))
    while port.timeline.step():
        pass
    return frames


def test_a_frame_arrives_after_both_ways_and_the_step():
    port = port_with()
    port.send(admit(1))
    ((time_s, frame),) = run(port)
    assert isinstance(frame.events[0], Done)
    assert frame.seconds > 1e-3
    assert time_s == pytest.approx(2 * LATENCY_S + frame.seconds)
    assert (frame.epoch, frame.number) == (1, 1)


def test_what_arrives_during_a_step_waits_for_its_end():
    port = port_with()
    port.send(admit(1))
    port.timeline.after(LATENCY_S, lambda: port.send(admit(2)))
    (first_s, first), (second_s, second) = run(port)
    assert second_s == pytest.approx(first_s + second.seconds)
    assert [len(frame.events) for frame in (first, second)] == [1, 1]


def test_a_cancel_during_a_step_comes_too_late():
    port = port_with()
    port.send(admit(1))
    port.timeline.after(LATENCY_S, lambda: port.send(Cancel(1)))
    ((_, frame),) = run(port)
    assert isinstance(frame.events[0], Done)


def test_a_cancel_before_it_is_confirmed():
    port = port_with()
    port.send(admit(1))
    port.send(Cancel(1))
    frames = run(port)
    events = [event for _, frame in frames for event in frame.events]
    assert len(events) == 1
    assert isinstance(events[0], Done | Cancelled)


def events_with(fault):
    port = port_with(FaultRates(**{fault.value: 1.0}))
    port.send(admit(1))
    return port, run(port)


def test_a_failed_task_is_the_last_that_was_done():
    _, ((_, frame),) = events_with(Fault.FAIL_TASK)
    assert frame.events == (Failed(1, "the simulated engine failed this task"),)


def test_a_broken_step_is_told_by_the_engine():
    _, ((_, frame),) = events_with(Fault.BREAK_STEP)
    assert isinstance(frame.events[0], Failed)
    assert "device broke" in frame.events[0].message


def test_a_slow_step_takes_long_and_the_engine_knows():
    _, ((_, slow),) = events_with(Fault.SLOW_STEP)
    port = port_with()
    port.send(admit(1))
    ((_, usual),) = run(port)
    assert slow.seconds > 10 * usual.seconds


def test_a_lost_frame_leaves_a_gap_that_a_later_one_shows():
    _, ((_, beat),) = events_with(Fault.LOSE_FRAME)
    assert beat.events == ()
    assert beat.number == 2


def test_a_repeated_frame_has_its_number_twice():
    _, ((_, one), (_, two)) = events_with(Fault.REPEAT_FRAME)
    assert one.number == two.number == 1
    assert one.events == two.events


def test_a_lost_lane_is_noticed_failed_and_restarted():
    port = port_with(FaultRates(lose_lane=1.0))
    frames = []

    def wake():
        frames.extend((port.timeline.now_s(), frame) for frame in port.frames())
        if len(frames) == 1:  # the lane is lost: let it live, and send to the next epoch
            port.faults = FaultSource(NO_FAULTS, random.Random(0))
            port.send(admit(2))

    port.subscribe(wake)
    port.send(admit(1))
    while port.timeline.step():
        pass
    (lost_s, lost), (served_s, served) = frames
    assert lost_s < NOTICED_S_MAX + 1
    assert (lost.epoch, lost.number) == (1, 0)
    assert lost.events[0].message.startswith("lane lost:")
    assert served_s > lost_s + RESTART_S
    assert (served.epoch, served.number) == (2, 1)
    assert served.events[0].task_id == 2


def lost_and_back(**rates):
    """Lose a lane at its first step and send one task more; return (time, frame) of all frames."""
    port = port_with(FaultRates(**rates))
    frames = []

    def wake():
        frames.extend((port.timeline.now_s(), frame) for frame in port.frames())
        if len(frames) == 1:
            port.faults = FaultSource(NO_FAULTS, random.Random(0))
            port.send(admit(2))

    port.subscribe(wake)
    port.send(admit(1))
    while port.timeline.step():
        pass
    return frames


def test_a_lane_that_hangs_is_noticed_at_last():
    (lost_s, lost), (served_s, _) = lost_and_back(hang=1.0)
    assert lost_s == pytest.approx(NOTICED_S_MAX + LATENCY_S)
    assert lost.events[0].message.startswith("lane lost:")
    assert served_s > lost_s + RESTART_S


def test_a_slow_start_takes_long():
    (lost_s, _), (served_s, served) = lost_and_back(slow_start=1.0)
    assert served_s > lost_s + SLOW_START_S
    assert (served.epoch, served.number) == (2, 1)


def test_a_lane_taken_for_dead_goes_on_in_its_old_epoch():
    (_, lost), (_, late), (_, served) = lost_and_back(false_death=1.0)
    assert isinstance(lost.events[0], Failed)
    assert isinstance(late.events[0], Done)
    assert (late.epoch, late.number, late.events[0].task_id) == (1, 1, 1)
    assert (served.epoch, served.number, served.events[0].task_id) == (2, 1, 2)


def test_a_lane_that_is_given_up_refuses_what_is_sent():
    (_, lost), (_, refused) = lost_and_back(give_up=1.0)
    assert "given up" in lost.events[0].message
    assert is_death(lost.events[0].message)
    assert refused.events[0].task_id == 2
    assert not is_death(refused.events[0].message)


def test_a_late_frame_keeps_the_next_ones_behind_it():
    port = port_with(FaultRates(delay_frame=1.0))
    port.send(admit(1))
    port.timeline.after(LATENCY_S * 2, lambda: stop_faults(port))
    port.timeline.after(LATENCY_S * 2, lambda: port.send(admit(2)))
    (first_s, first), (second_s, second) = run(port)
    assert first_s > DELAY_S
    assert second_s >= first_s
    assert [first.number, second.number] == [1, 2]


def stop_faults(port):
    port.faults = FaultSource(NO_FAULTS, random.Random(0))


def test_of_a_closed_lane_nothing_is_heard():
    port = port_with()
    port.send(admit(1))
    port.timeline.after(LATENCY_S * 1.5, port.close)
    assert run(port) == []
