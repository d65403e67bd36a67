"""The supervisor decides from its arguments alone, on any clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.runtime.supervision import (
    LANE_LOST,
    GiveUp,
    Heartbeat,
    LaneLimits,
    LaneState,
    LaneSupervisor,
    Restart,
    is_crash,
    lost_message,
    refused_message,
)


def ready_lane(now_s: float = 0.0, **limits: float) -> LaneSupervisor:
    supervisor = LaneSupervisor("llm", LaneLimits(**limits))  # type: ignore[arg-type]
    supervisor.spawned(now_s)
    supervisor.ready(now_s)
    return supervisor


def test_a_lane_that_is_heard_is_well() -> None:
    lane = ready_lane()
    for beat in range(1, 20):
        lane.heard(beat * 0.5, Heartbeat())
        assert lane.fault(beat * 0.5) is None
    assert lane.health(9.6, pid=7).last_heartbeat_age_s == pytest.approx(0.1)
    assert lane.health(9.6, pid=7).state is LaneState.READY


def test_silence_is_noticed_within_two_seconds() -> None:
    lane = ready_lane(10.0)
    assert lane.next_check_s() == 12.0
    assert lane.fault(11.9) is None
    reason = lane.fault(lane.next_check_s())
    assert reason is not None
    assert "no sign of life for 2.0 s" in reason


@pytest.mark.parametrize(("progress_s", "is_well"), [(0.0, False), (0.9, False), (1.0, True)])
def test_a_process_that_works_or_waits_for_a_core_is_not_dead(
    progress_s: float, is_well: bool
) -> None:
    lane = ready_lane(10.0)
    assert not lane.is_silent(11.9)
    assert lane.is_silent(12.0)
    assert (lane.fault(12.0, progress_s) is None) is is_well


def test_who_waits_for_a_core_is_asked_again_and_waited_for_half_a_minute() -> None:
    lane = ready_lane(10.0)
    now_s = lane.next_check_s()
    while now_s < 40.0:
        assert lane.fault(now_s, progress_s=now_s - 10.0) is None
        assert lane.next_check_s() == now_s + lane.limits.heartbeat_s
        now_s = lane.next_check_s()
    reason = lane.fault(now_s, progress_s=now_s - 10.0)
    assert reason is not None
    assert reason.startswith("no sign of life for 30")


def test_a_lane_that_is_heard_again_is_as_any_other() -> None:
    lane = ready_lane(10.0)
    assert lane.fault(12.0, progress_s=2.0) is None
    lane.heard(12.2)
    assert lane.fault(12.2) is None
    assert lane.next_check_s() == pytest.approx(14.2)
    assert lane.fault(14.2) is not None


def test_a_frame_is_a_sign_of_life_too() -> None:
    lane = ready_lane()
    lane.heard(1.9)
    assert lane.fault(2.5) is None
    assert lane.fault(3.9) is not None


def test_time_the_watcher_itself_was_away_does_not_count() -> None:
    lane = ready_lane()
    lane.heard(1.0)
    assert lane.fault(1.0) is None  # the next check was planned for 3.0 ...
    assert lane.fault(60.0) is None  # ... and came a minute late
    assert lane.fault(lane.next_check_s()) is not None  # but from now on silence counts


@pytest.mark.parametrize(("predicted_s", "limit_s"), [(0.0, 2.0), (0.05, 2.5), (3.0, 32.0)])
def test_hung_is_ten_times_the_prediction_plus_two_seconds(
    predicted_s: float, limit_s: float
) -> None:
    lane = ready_lane()
    lane.heard(1.0, Heartbeat("llm", limit_s, predicted_s))
    assert lane.fault(1.0) is None
    lane.heard(1.5, Heartbeat("llm", limit_s + 0.01, predicted_s))
    reason = lane.fault(1.5)
    assert reason is not None
    assert reason.startswith("hung: a step of engine llm")


def test_a_step_without_a_prediction_is_never_hung() -> None:
    lane = ready_lane()
    lane.heard(1.0, Heartbeat("llm", 1e6, float("inf")))
    assert lane.fault(1.0) is None


def test_starting_has_its_own_limit_and_says_what_was_being_built() -> None:
    lane = LaneSupervisor("llm", LaneLimits(start_s_max=30.0))
    lane.spawned(5.0)
    assert lane.fault(20.0) is None  # silent, yet importing torch may hold everything up
    lane.heard(21.0, Heartbeat("reader", 15.0, float("inf")))
    reason = lane.fault(35.5)
    assert reason is not None
    assert "did not start within 30 s, still building engine reader" in reason


def test_a_lane_that_never_got_ready_is_not_started_again() -> None:
    lane = LaneSupervisor("llm")
    lane.spawned(0.0)
    assert lane.lost("exit code 1", 0.2) == GiveUp("it never got ready")
    assert lane.state is LaneState.FAILED


def test_restarts_back_off_and_then_end() -> None:
    lane = ready_lane(restarts_max=3, backoff_s=0.1, backoff_s_max=0.3)
    verdicts = []
    for now_s in (1.0, 2.0, 3.0, 4.0):
        verdicts.append(lane.lost("exit code -9", now_s))
        lane.spawned(now_s)
    assert verdicts[:3] == [Restart(2, 0.1), Restart(3, 0.2), Restart(4, 0.3)]
    assert verdicts[3] == GiveUp("given up after 3 restarts within 60 s")


def test_a_lane_that_was_given_up_is_tried_once_more_at_a_time() -> None:
    lane = ready_lane(restarts_max=0, again_s=60.0)
    why = "given up after 0 restarts within 60 s; tried once more in 60 s"
    assert lane.lost("exit code -9", 1.0) == GiveUp(why, Restart(2, 60.0))
    assert lane.state is LaneState.FAILED
    lane.spawned(61.0)
    again = "given up again; tried once more in 60 s"
    assert lane.lost("exit code -9", 62.0) == GiveUp(again, Restart(3, 60.0))
    lane.spawned(122.0)
    lane.ready(123.0)
    assert lane.state is LaneState.READY
    assert lane.lost("exit code -9", 190.0) == GiveUp(why, Restart(4, 60.0))


def test_old_restarts_are_forgiven() -> None:
    lane = ready_lane(restarts_max=1, restart_window_s=60.0)
    assert lane.lost("x", 1.0) == Restart(2, 0.1)
    lane.spawned(1.1)
    lane.ready(1.2)
    assert lane.lost("x", 61.5) == Restart(3, 0.1)


def test_states_through_a_restart() -> None:
    lane = LaneSupervisor("llm")
    lane.spawned(0.0)
    seen = [lane.state]
    lane.ready(1.0)
    seen.append(lane.state)
    lane.lost("exit code -9", 2.0)
    seen.append(lane.state)
    lane.spawned(2.1)
    seen.append(lane.state)
    lane.ready(3.0)
    seen.append(lane.state)
    assert [state.value for state in seen] == ["starting", "ready", "lost", "restarting", "ready"]
    health = lane.health(3.5, pid=9)
    assert (health.epoch, health.restarts, health.reason) == (2, 1, "exit code -9")


def test_the_message_of_lost_tasks() -> None:
    assert lost_message("llm", "exit code -9", Restart(2, 0.1)) == (
        f"{LANE_LOST} lane llm was lost (exit code -9); restarted as epoch 2"
    )
    assert lost_message("llm", "hung", GiveUp("no more")).endswith("lost (hung); no more")
    again = GiveUp("tried once more in 60 s", Restart(3, 60.0))
    assert lost_message("llm", "hung", again).endswith("; tried once more in 60 s as epoch 3")


@pytest.mark.parametrize(
    ("reason", "crashed"),
    [
        ("exit code -11, SIGSEGV", True),
        ("exit code -6, SIGABRT", True),
        ("exit code 1", True),
        ("exit code 137", True),
        ("hung: a step of engine llm ran 9.0 s, predicted 0.100 s", True),
        ("exit code -9, SIGKILL", False),
        ("exit code -15, SIGTERM", False),
        ("exit code 0", False),
        ("no sign of life for 2.0 s", False),
        ("the agent of node east is gone: it hung up", False),
        ("while it started: exit code 1", False),
    ],
)
def test_what_may_come_from_outside_is_no_crash(reason: str, crashed: bool) -> None:
    assert is_crash(lost_message("llm", reason, Restart(2, 0.1))) == crashed
    assert not is_crash(refused_message(lost_message("llm", reason, GiveUp("no more"))))


@pytest.mark.parametrize(
    ("name", "value"),
    [("heartbeat_s", 0.0), ("hang_factor", -1.0), ("restarts_max", -1), ("silence_s_max", 0.5)],
)
def test_a_limit_that_makes_no_sense_is_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"LaneLimits.{name}"):
        LaneLimits(**{name: value})  # type: ignore[arg-type]


@given(st.lists(st.floats(0.0, 500.0), max_size=40).map(sorted), st.integers(0, 5))
def test_never_more_restarts_in_a_window_than_allowed(
    losses_s: list[float], restarts_max: int
) -> None:
    lane = ready_lane(restarts_max=restarts_max)
    granted_s = []
    for now_s in losses_s:
        verdict = lane.lost("x", now_s)
        if isinstance(verdict, GiveUp):
            break
        granted_s.append(now_s)
        assert verdict.epoch == 1 + len(granted_s)
        assert verdict.backoff_s <= lane.limits.backoff_s_max
        lane.spawned(now_s)
    for end_s in granted_s:
        window = [s for s in granted_s if end_s - lane.limits.restart_window_s <= s <= end_s]
        assert len(window) <= restarts_max
