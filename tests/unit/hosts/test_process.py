"""Lanes in processes of their own: round trips, deaths, hangs, starts that fail, clean ends."""

import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heddle.core.commands import Cancel, Release
from heddle.core.errors import ConfigError, EngineError, HeddleError
from heddle.core.frames import Cancelled, Done, Event, Failed, Progress
from heddle.core.instruction_sets import AVX2, holds_back
from heddle.core.payloads import ToolPayload
from heddle.core.results import KvHandle, ToolResult, Vectors
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.numa.memory_policy import NODES_MAX, binding_problem
from heddle.hosts.process import ProcessLane, start_lanes
from heddle.runtime.supervision import (
    LANE_LOST,
    LaneLimits,
    LaneState,
    LaneSupervisor,
    is_crash,
    is_death,
)
from tests.helpers.echo_engine import (
    CRASH,
    FAIL,
    FORK,
    FREEZE,
    GRIND,
    HANG,
    KEPT,
    KINDS,
    RAISE,
    STREAM,
    UNPICKLABLE,
    UNREADABLE,
    WHERE,
    EchoSettings,
    admit,
    texts_to_vectors,
)
from tests.helpers.open_files import check_none_left, open_files
from tests.helpers.port_reader import PortReader, is_running
from tests.helpers.server_state import eventually

ROOT = Path(__file__).parents[3]
PATIENCE_S = 30.0
FAST = LaneLimits(heartbeat_s=0.1, silence_s_max=0.8, hang_margin_s=0.3, backoff_s=0.01)


def engine(name: str = "echo", **settings: object) -> EngineSpec:
    return EngineSpec(
        name,
        "tests.helpers.echo_engine:build",
        EchoSettings(**settings),  # type: ignore[arg-type]
        64,
        KINDS,
    )


def shared_memory_files() -> set[str]:
    """Return what lanes can have made: databases of other tests come and go."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("PostgreSQL.")}


def wait_until_gone(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poller = select.poll()
    poller.register(fd, select.POLLIN)  # readable once the process has ended
    ended = poller.poll(PATIENCE_S * 1000.0)
    os.close(fd)
    assert ended, f"process {pid} is still there"


@contextmanager
def running(
    *engines: EngineSpec,
    limits: LaneLimits | None = None,
    cpus: Sequence[int] = (),
    memory_node: int | None = None,
    environment: tuple[tuple[str, str], ...] = (),
) -> Iterator[ProcessLane]:
    before, files = open_files(), shared_memory_files()
    engines = engines or (engine(),)
    spec = LaneSpec("lane", engines, tuple(cpus), 1, memory_node, environment)
    lane = ProcessLane(spec, limits)
    with lane:
        pid = lane.health.pid
        yield lane
    assert pid is not None
    assert not is_running(pid)
    assert lane.health.state in (LaneState.CLOSED, LaneState.FAILED)
    check_none_left(before)
    assert shared_memory_files() == files


def failure(event: Event) -> str:
    assert isinstance(event, Failed), event
    return event.message


def is_away(event: Event) -> bool:
    assert isinstance(event, Failed), event
    return event.is_away


def value(event: Event) -> Any:
    assert isinstance(event, Done), event
    assert isinstance(event.result, ToolResult)
    return event.result.value


def test_many_tasks_round_trip() -> None:
    with running() as lane:
        port = lane.ports["echo"]
        assert (port.name, port.epoch, port.credits.free) == ("echo", 1, 64)
        reader = PortReader(port)
        for i in range(300):
            port.send(admit(i, "x" * i, "y"))
        for i, event in enumerate(reader.endings(*range(300))):
            assert isinstance(event, Done)
            assert isinstance(event.result, Vectors)
            np.testing.assert_array_equal(event.result.values, texts_to_vectors(["x" * i, "y"], 4))
        assert [frame.number for frame in reader.frames] == list(range(1, 301))
        assert {frame.epoch for frame in reader.frames} == {1}
        assert len(port.live) == 0


def test_big_arrays_both_ways() -> None:
    with running() as lane:
        reader = PortReader(lane.ports["echo"])
        array = np.random.default_rng(5).random((500, 384), dtype=np.float32)
        for i in range(40):  # far more than the socket holds at once
            lane.ports["echo"].send(admit(i, payload=ToolPayload(len, (array, i))))
        for i, event in enumerate(reader.endings(*range(40))):
            got, number = value(event)
            assert number == i
            np.testing.assert_array_equal(got, array)


def test_a_lane_that_is_silent_at_work_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    limits = LaneLimits(heartbeat_s=0.05, silence_s_max=0.2, hang_margin_s=60.0)
    with running(limits=limits) as lane:
        reader = PortReader(lane.ports["echo"])
        lane.ports["echo"].send(admit(1, GRIND))
        assert isinstance(reader.endings(1)[0], Done)
        assert lane.epoch == 1
    assert "silent, but at work or without a core" in caplog.text


def test_a_lane_that_does_not_read_stops_nobody() -> None:
    with running(limits=LaneLimits(heartbeat_s=0.1, silence_s_max=60.0)) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        assert lane.health.pid is not None
        os.kill(lane.health.pid, signal.SIGSTOP)
        began_s = time.monotonic()
        for i in range(1000):  # far more than the socket holds
            port.send(admit(i, "z" * 1000))
        port.send(Cancel(999))
        assert time.monotonic() - began_s < 5.0
        os.kill(lane.health.pid, signal.SIGCONT)
        endings = reader.endings(*range(1000))
        assert all(isinstance(event, Done) for event in endings[:999])
        assert endings[999] == Cancelled(999)


def test_a_cancel_overtakes_long_texts_that_wait() -> None:
    with running(engine(step_sleep_s=0.1)) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        for i in range(20):
            port.send(admit(i, "z" * 500_000))
        port.send(Cancel(19))
        assert reader.endings(19) == [Cancelled(19)]
        assert len(port.live) > 10  # known long before the texts ahead of it were done


def test_progress_and_cancel() -> None:
    with running() as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, STREAM + "100000000"))
        port.send(admit(2, STREAM + "3"))
        reader.until(lambda events: sum(isinstance(event, Progress) for event in events) > 5)
        port.send(Cancel(1))
        first, second = reader.endings(1, 2)
        assert first == Cancelled(1)
        assert isinstance(second, Done)
        port.send(Cancel(1))  # ended: dropped on this side
        port.send(admit(3, "a"))
        reader.endings(3)


def test_engines_of_one_lane_take_turns() -> None:
    with running(engine("first"), engine("second")) as lane:
        readers = {name: PortReader(port) for name, port in lane.ports.items()}
        lane.ports["first"].send(admit(1, STREAM + "100000000"))
        readers["first"].until(bool)
        lane.ports["second"].send(admit(2, "a"))
        readers["second"].endings(2)  # although the first always has work
        lane.ports["first"].send(Cancel(1))
        readers["first"].endings(1)


def test_cores_threads_and_process_are_as_asked() -> None:
    cpu = max(os.sched_getaffinity(0))
    mine = os.sched_getaffinity(0)
    with running(cpus=[cpu]) as lane:
        reader = PortReader(lane.ports["echo"])
        lane.ports["echo"].send(admit(1, WHERE))
        pid, cpus, threads = value(reader.endings(1)[0])
        assert pid == lane.health.pid != os.getpid()
        assert cpus == [cpu]
        assert threads == ["1", "1"]
    assert os.sched_getaffinity(0) == mine


def test_what_a_lanes_start_has_made_is_left_out_of_collections() -> None:
    with running() as lane:
        reader = PortReader(lane.ports["echo"])
        lane.ports["echo"].send(admit(1, KEPT))
        is_collecting, kept = value(reader.endings(1)[0])
    assert is_collecting
    assert kept > 10_000  # numpy's alone


@pytest.mark.skipif(bool(binding_problem()), reason="memory policies are refused here")
def test_memory_and_environment_are_as_asked() -> None:
    with running(memory_node=0, environment=(("HELD", "back"),)) as lane:
        process = Path(f"/proc/{lane.health.pid}")
        policies = {line.split()[1] for line in (process / "numa_maps").read_text().splitlines()}
        assert "bind:0" in policies
        assert b"HELD=back" in (process / "environ").read_bytes().split(b"\0")
    assert "HELD" not in os.environ


def test_a_lane_whose_memory_can_not_be_bound_says_so_and_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running(memory_node=NODES_MAX - 1) as lane:
        assert lane.health.state is LaneState.READY
    assert "lane lane: its memory is not bound to a node: the system refuses" in caplog.text


def test_failures_inside_the_engine_leave_the_lane_alone() -> None:
    with running() as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, FAIL))
        port.send(admit(2, UNPICKLABLE))
        port.send(admit(3, payload=ToolPayload(len, (threading.Lock(),))))
        own, unsendable, unsent = reader.endings(1, 2, 3)
        assert own == Failed(1, "no good", is_input=True)
        assert "the result can't be sent back" in failure(unsendable)
        assert "the task can't be sent to lane lane" in failure(unsent)
        port.send(admit(4, RAISE))
        assert "RuntimeError: the worker broke" in failure(reader.endings(4)[0])
        port.send(admit(5, "fine"))
        assert isinstance(reader.endings(5)[0], Done)
        assert lane.health.restarts == 0


def test_a_crash_fails_what_was_in_flight_and_the_lane_comes_back() -> None:
    with running(limits=FAST) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, "done before"))
        reader.endings(1)
        for task_id, text in ((2, STREAM + "9999999"), (3, CRASH), (4, "behind it")):
            port.send(admit(task_id, text))
        for event in reader.endings(2, 3, 4):
            assert failure(event) == (
                f"{LANE_LOST} lane lane was lost (exit code 41); restarted as epoch 2"
            )
            assert is_crash(failure(event))
        assert reader.frames[-1].epoch == 1
        port.send(admit(5, "again"))
        port.send(Release(KvHandle("echo", 1, 2)))  # void by now: dropped on this side
        assert isinstance(reader.endings(5)[0], Done)
        assert port.epoch == reader.frames[-1].epoch == 2
        assert reader.frames[-1].number == 1
        health = port.health
        assert (health.state, health.epoch, health.restarts) == (LaneState.READY, 2, 1)
        assert health.reason == "exit code 41"


def test_a_killed_lane_says_so() -> None:
    with running(limits=FAST) as lane:
        reader = PortReader(lane.ports["echo"])
        lane.ports["echo"].send(admit(1, STREAM + "9999999"))
        reader.until(bool)
        assert lane.health.pid is not None
        os.kill(lane.health.pid, signal.SIGKILL)
        told = failure(reader.endings(1)[0])
        assert "(exit code -9, SIGKILL)" in told
        assert not is_crash(told)


@pytest.mark.parametrize(
    ("text", "words"),
    [(HANG, "hung: a step of engine echo ran"), (FREEZE, "no sign of life for")],
)
def test_a_hung_or_frozen_lane_is_killed_and_comes_back(text: str, words: str) -> None:
    with running(limits=FAST) as lane:
        reader = PortReader(lane.ports["echo"])
        first = lane.health.pid
        lane.ports["echo"].send(admit(1, text))
        assert words in failure(reader.endings(1)[0])
        lane.ports["echo"].send(admit(2, "again"))
        assert isinstance(reader.endings(2)[0], Done)
        assert first is not None
        assert not is_running(first)


def test_what_a_lost_lane_had_started_goes_with_it() -> None:
    with running(limits=FAST) as lane:
        reader = PortReader(lane.ports["echo"])
        lane.ports["echo"].send(admit(1, FORK))
        child = value(reader.endings(1)[0])
        assert isinstance(child, int)
        # The child holds the lane's socket open, so only the silence reveals the crash.
        lane.ports["echo"].send(admit(2, CRASH))
        assert LANE_LOST in failure(reader.endings(2)[0])
        wait_until_gone(child)


def test_a_message_that_can_not_be_read_costs_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    with running(limits=FAST) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, STREAM + "9999999"))
        port.send(admit(2, UNREADABLE))
        for event in reader.endings(1, 2):
            assert failure(event).startswith(LANE_LOST)
            assert "LookupError: this makes no sense here" in failure(event)
        port.send(admit(3, "again"))
        assert isinstance(reader.endings(3)[0], Done)
        health = lane.health
        assert (health.state, health.restarts) == (LaneState.READY, 1)
        assert "watching over it failed: LookupError" in health.reason
    assert any(record.exc_info for record in caplog.records)


def test_a_watcher_that_fails_leaves_the_lane_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with running(limits=FAST) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        monkeypatch.setattr(LaneSupervisor, "lost", lost)
        port.send(admit(1, CRASH))
        assert "ZeroDivisionError: a bug); nobody watches" in failure(reader.endings(1)[0])
        assert lane.health.state is LaneState.FAILED
        assert lane.health.pid is None
        assert "ZeroDivisionError" in lane.health.reason
        port.send(admit(2, "too late"))
        assert failure(reader.endings(2)[0]).startswith(LANE_LOST)
    assert any(record.exc_info for record in caplog.records)


def test_a_watcher_that_fails_while_the_lane_starts_is_told_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spawned(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(LaneSupervisor, "spawned", spawned)
    lane = ProcessLane(LaneSpec("lane", (engine(),)))
    with pytest.raises(ConfigError, match="could not start: watching over it failed: ZeroDiv"):
        lane.wait_ready()


def test_a_lane_that_keeps_dying_is_given_up() -> None:
    limits = LaneLimits(restarts_max=1, backoff_s=0.01)
    with running(limits=limits) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, CRASH))
        reader.endings(1)
        port.send(admit(2, CRASH))
        assert "given up after 1 restarts within 60 s" in failure(reader.endings(2)[0])
        port.send(admit(3, "too late"))
        port.send(Cancel(3))
        assert failure(reader.endings(3)[0]).startswith(LANE_LOST)
        assert port.health.state is LaneState.FAILED


def test_a_lane_that_was_given_up_comes_back_and_refuses_until_then() -> None:
    limits = LaneLimits(restarts_max=0, backoff_s=0.01, again_s=0.5)
    with running(limits=limits) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, CRASH))
        assert "tried once more in 0.5 s" in failure(reader.endings(1)[0])
        port.send(admit(2, "too early"))
        assert "tried once more" in failure(reader.endings(2)[0])
        eventually(lambda: port.health.state is LaneState.READY)
        port.send(admit(3, "well"))
        assert isinstance(reader.endings(3)[0], Done)
        assert port.health.epoch == 2


def test_a_restart_that_fails_is_told_with_its_reason() -> None:
    spec = engine(start_error="config", start_error_from_epoch=2)
    with running(spec, limits=LaneLimits(restarts_max=1, backoff_s=0.01)) as lane:
        reader = PortReader(lane.ports["echo"])
        lane.ports["echo"].send(admit(1, CRASH))
        reader.endings(1)
        lane.ports["echo"].send(admit(2, "waits for epoch 2"))
        told = failure(reader.endings(2)[0])
        assert "was lost (while it started: " in told
        assert "model directory 'nowhere' is missing" in told
        assert not is_death(told), "what has waited for it can't have ended it"


def test_tasks_of_a_lane_whose_restart_misses_the_database_are_told_so_until_it_is_back() -> None:
    spec = engine(start_error="away", start_error_from_epoch=2)
    with running(spec, limits=LaneLimits(restarts_max=1, backoff_s=0.01, again_s=0.5)) as lane:
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, CRASH))
        assert not is_away(reader.endings(1)[0]), "the database had no part in this"
        port.send(admit(2, "waits for epoch 2"))
        assert is_away(reader.endings(2)[0])
        port.send(admit(3, "comes after the lane was given up"))
        assert is_away(reader.endings(3)[0])


@pytest.mark.parametrize(
    ("start_error", "raises", "message"),
    [
        ("config", ConfigError, r"model directory 'nowhere' is missing: give --model a directory"),
        ("unexpected", ConfigError, r"lane 'lane' could not start: .*RuntimeError: something else"),
        # Not refused settings, after which no supervisor would start the server again.
        ("exit", EngineError, r"lane 'lane': could not start: exit code 3, its messages are on "),
        ("slow", EngineError, r"it did not start within 0.5 s.*, its messages are on stderr"),
    ],
)
def test_a_start_that_fails_is_raised_here(
    start_error: str,
    raises: type[HeddleError],
    message: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = open_files()
    lane = ProcessLane(
        LaneSpec("lane", (engine(start_error=start_error),)),
        LaneLimits(start_s_max=0.5 if start_error == "slow" else 60.0),
    )
    with pytest.raises(raises, match=message):
        lane.wait_ready()
    check_none_left(before)
    assert ("Traceback" in capfd.readouterr().err) == (start_error == "unexpected")


@pytest.mark.skipif(not holds_back(AVX2), reason="the CPU has no more than AVX2")
def test_a_lane_whose_libraries_compute_with_more_than_it_is_held_to_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEDDLE_HELD", "avx2")  # and nothing that libraries hear
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    lane = ProcessLane(LaneSpec("lane", (engine(),)))
    with pytest.raises(ConfigError, match="this process is held to avx2, but numpy says"):
        lane.wait_ready()


def test_lanes_start_together_or_not_at_all() -> None:
    good, bad = LaneSpec("good", (engine(),)), LaneSpec("bad", (engine(start_error="config"),))
    before = open_files()
    with pytest.raises(ConfigError, match="nowhere"):
        start_lanes((good, bad))
    check_none_left(before)
    lanes = start_lanes((good, LaneSpec("too", (engine("other"),))))
    assert [lane.health.state for lane in lanes] == [LaneState.READY] * 2
    for lane in lanes:
        lane.close()


def test_a_missing_factory_is_named() -> None:
    spec = EngineSpec("e", "tests.helpers.echo_engine:nothing", EchoSettings(), 1, KINDS)
    with pytest.raises(ConfigError, match="has no function 'nothing'"):
        ProcessLane(LaneSpec("lane", (spec,))).wait_ready()


def test_settings_that_cannot_be_pickled_are_refused_here() -> None:
    spec = EngineSpec("e", "m:f", threading.Lock(), 1, KINDS)
    with pytest.raises(ConfigError, match="settings of lane 'lane' can't be pickled"):
        ProcessLane(LaneSpec("lane", (spec,)))


@pytest.mark.parametrize("task", ["", HANG])
def test_close_is_quick_and_fails_what_is_in_flight(task: str) -> None:
    lane = ProcessLane(LaneSpec("lane", (engine(),)))
    lane.wait_ready()
    port = lane.ports["echo"]
    reader = PortReader(port)
    if task:
        port.send(admit(1, task))
    began_s = time.monotonic()
    lane.close()
    assert time.monotonic() - began_s < 5.0  # 0.6 s; a step that hangs never ends
    lane.close()
    port.send(admit(2, "too late"))
    for task_id in (1, 2) if task else (2,):
        assert failure(reader.endings(task_id)[0]) == f"{LANE_LOST} lane lane was closed"


def test_engines_are_closed_before_their_process_ends(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    engines = (engine(file.name, closes_into=str(file)) for file in files)
    with running(*engines):
        assert not any(file.exists() for file in files)
    assert [file.read_text() for file in files] == ["one", "two"]


def test_close_while_starting() -> None:
    lane = ProcessLane(LaneSpec("lane", (engine(start_error="slow"),)))
    lane.close()
    with pytest.raises(ConfigError, match="closed before it was ready"):
        lane.wait_ready()


SCRIPT = """
    import sys, threading
    sys.path.insert(0, {root!r})
    from heddle.hosts.lane_spec import EngineSpec, LaneSpec
    from heddle.hosts.process import ProcessLane
    from tests.helpers.echo_engine import HANG, KINDS, EchoSettings, admit

    spec = EngineSpec("echo", "tests.helpers.echo_engine:build", EchoSettings(), 8, KINDS)
    lane = ProcessLane(LaneSpec("lane", (spec,)))
    lane.wait_ready()
    {action}
    print(lane.health.pid, flush=True)
    threading.Event().wait()
"""


@contextmanager
def script(action: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a user's script, without any guard, that starts a lane; yield it and the lane's pid."""
    code = textwrap.dedent(SCRIPT).format(root=str(ROOT), action=action)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("action", ["pass", "lane.ports['echo'].send(admit(1, HANG))"])
def test_a_killed_parent_leaves_no_orphan(action: str) -> None:
    with script(action) as (parent, lane_pid):
        assert is_running(lane_pid)
        parent.kill()
        wait_until_gone(lane_pid)


def test_ctrl_c_ends_the_parent_and_the_lane_says_nothing() -> None:
    with script("pass") as (parent, lane_pid):
        os.kill(lane_pid, signal.SIGINT)  # as a terminal might, ignored
        os.killpg(parent.pid, signal.SIGINT)
        _, messages = parent.communicate(timeout=PATIENCE_S)
        wait_until_gone(lane_pid)
    assert re.findall(r"^\w*(?:Error|Interrupt|Exception).*$", messages, re.MULTILINE) == [
        "KeyboardInterrupt"
    ]


def test_a_server_that_forgets_to_close_ends_all_the_same() -> None:
    with script("print(lane.health.pid, flush=True); sys.exit(0)") as (parent, lane_pid):
        _, messages = parent.communicate(timeout=PATIENCE_S)
        wait_until_gone(lane_pid)
    assert messages == ""
    assert parent.returncode == 0
