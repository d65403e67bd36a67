"""Lanes that an agent starts over TCP: the same answers, deaths and restarts as on one machine."""

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from heddle.core.errors import ConfigError
from heddle.core.frames import Done, Failed
from heddle.core.payloads import ToolPayload
from heddle.core.results import ToolResult, Vectors
from heddle.hosts.lane_process import Body, StartedLane
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.nodes import agent as agent_module
from heddle.hosts.nodes import remote_process
from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.agent import Agent
from heddle.hosts.nodes.remote_process import RemoteProcess
from heddle.hosts.process import ProcessLane
from heddle.runtime.supervision import LANE_LOST, LaneLimits, LaneState
from tests.helpers.echo_engine import (
    CRASH,
    FORK,
    FREEZE,
    GRIND,
    HANG,
    KINDS,
    STREAM,
    WHERE,
    EchoSettings,
    admit,
)
from tests.helpers.port_reader import PortReader, is_running
from tests.helpers.server_state import eventually
from tests.helpers.stalling_proxy import StallingProxy

SECRET = b"the secret of a cluster in a test"
FAST = LaneLimits(heartbeat_s=0.1, hang_margin_s=0.3, backoff_s=0.01)
pytestmark = pytest.mark.slow
LOOPBACK = Address("127.0.0.1", 0)


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with Agent("node-1", LOOPBACK, SECRET) as started:
        yield started


def spec(**settings: object) -> LaneSpec:
    echo = EchoSettings(**settings)  # type: ignore[arg-type]
    engine = EngineSpec("echo", "tests.helpers.echo_engine:build", echo, 64, KINDS)
    return LaneSpec("lane", (engine,))


@contextmanager
def running(
    address: Address, limits: LaneLimits = FAST, secret: bytes = SECRET, **settings: object
) -> Iterator[tuple[ProcessLane, PortReader]]:
    def start(body: Body) -> StartedLane:
        return RemoteProcess(body, "node-1", address, secret, limits)

    lane = ProcessLane(spec(**settings), limits, start)
    with lane:
        yield lane, PortReader(lane.ports["echo"])
    assert lane.health.state in (LaneState.CLOSED, LaneState.FAILED)


def failure(event: object) -> str:
    assert isinstance(event, Failed), event
    return event.message


def test_answers_are_those_of_a_lane_of_this_machine(agent: Agent) -> None:
    texts = [("x" * i, "y") for i in range(100)]
    array = np.random.default_rng(5).random((1500, 384), dtype=np.float32)  # two records
    answers = []
    with running(agent.address) as remote, ProcessLane(spec(), FAST) as here:
        for lane, reader in (remote, (here, PortReader(here.ports["echo"]))):
            for i, pair in enumerate(texts):
                lane.ports["echo"].send(admit(i, *pair))
            lane.ports["echo"].send(admit(100, payload=ToolPayload(len, (array,))))
            answers.append(reader.endings(*range(101)))
            assert [frame.number for frame in reader.frames] == list(range(1, 102))
        assert (remote[0].health.place, here.health.place) == ("node-1", "")
    for there, beside in zip(*answers, strict=True):
        assert isinstance(there, Done)
        assert isinstance(beside, Done)
        if isinstance(there.result, Vectors):
            assert isinstance(beside.result, Vectors)
            np.testing.assert_array_equal(there.result.values, beside.result.values)
        else:
            assert isinstance(there.result, ToolResult)
            (got,) = there.result.value  # type: ignore[misc]
            np.testing.assert_array_equal(got, array)


def test_a_lane_leaves_cleanly_with_its_server(agent: Agent, tmp_path: Path) -> None:
    note = tmp_path / "closed"
    with running(agent.address, closes_into=str(note)) as (lane, reader):
        lane.ports["echo"].send(admit(1, WHERE))
        (done,) = reader.endings(1)
        assert isinstance(done, Done)
        assert isinstance(done.result, ToolResult)
        pid = lane.health.pid
        assert done.result.value[0] == pid  # type: ignore[index]
    assert note.read_text() == "echo"  # its engines were closed, it was not killed
    assert pid is not None
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CRASH, "exit code 41"),
        (HANG, "hung: a step of engine echo ran"),
        (FREEZE, "no sign of life for"),
    ],
)
def test_a_lost_lane_comes_back_on_its_node(agent: Agent, text: str, words: str) -> None:
    with running(agent.address) as (lane, reader):
        first = lane.health.pid
        assert first is not None
        lane.ports["echo"].send(admit(1, FORK))
        (forked,) = reader.endings(1)
        for task_id, order in ((2, STREAM + "9999999"), (3, text)):
            lane.ports["echo"].send(admit(task_id, order))
        for event in reader.endings(2, 3):
            message = failure(event)
            assert message.startswith(f"{LANE_LOST} lane lane was lost ({words}")
            assert message.endswith("restarted as epoch 2")
        lane.ports["echo"].send(admit(4, "again"))
        assert isinstance(reader.endings(4)[0], Done)
        assert (lane.epoch, lane.health.restarts) == (2, 1)
        assert not is_running(first)
        assert isinstance(forked, Done)
        assert isinstance(forked.result, ToolResult)
        child = forked.result.value
        assert isinstance(child, int)
        assert not is_running(child)


def test_a_lane_that_is_silent_at_work_is_waited_for(agent: Agent) -> None:
    limits = LaneLimits(heartbeat_s=0.05, silence_s_max=0.2, hang_margin_s=60.0)
    with running(agent.address, limits) as (lane, reader):
        lane.ports["echo"].send(admit(1, GRIND))
        assert isinstance(reader.endings(1)[0], Done)
        assert lane.epoch == 1


def test_a_half_open_link_is_noticed_and_the_lane_behind_it_ends(agent: Agent) -> None:
    limits = LaneLimits(heartbeat_s=0.1, crowded_s_max=4.0, restarts_max=0, close_s_max=0.5)
    with StallingProxy(agent.address) as proxy, running(proxy.address, limits) as (lane, reader):
        pid = lane.health.pid
        assert pid is not None
        lane.ports["echo"].send(admit(1, STREAM + "999999999"))
        reader.until(bool)
        proxy.stall()
        assert "no sign of life for" in failure(reader.endings(1)[0])
        eventually(lambda: not is_running(pid))  # the agent hears nothing of the server either
        assert lane.health.state is LaneState.FAILED


def test_a_lane_ends_with_its_agent() -> None:
    agent = Agent("node-1", LOOPBACK, SECRET)
    with running(agent.address) as (lane, reader):
        pid = lane.health.pid
        assert pid is not None
        lane.ports["echo"].send(admit(1, STREAM + "999999999"))
        reader.until(bool)
        agent.close()
        assert "lane lane was lost" in failure(reader.endings(1)[0])
        eventually(lambda: lane.health.state is LaneState.FAILED)
        assert "no agent answers at 127.0.0.1" in lane.health.reason
        assert not is_running(pid)


def test_another_secret_starts_nothing(agent: Agent) -> None:
    with (
        pytest.raises(ConfigError, match="isn't trusted: it has another secret"),
        running(agent.address, secret=b"x" * 32),
    ):
        pass


def test_a_node_with_another_build_refuses(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_process, "build", lambda: "Heddle 0.0, Python 3.0")
    with (
        pytest.raises(ConfigError, match=r"refused: it runs Heddle .*, and the server Heddle 0.0"),
        running(agent.address),
    ):
        pass


def test_a_start_error_of_an_engine_comes_back_as_it_was(agent: Agent) -> None:
    with (
        pytest.raises(ConfigError, match="model directory") as raised,
        running(agent.address, start_error="config"),
    ):
        pass
    assert "could not start" not in str(raised.value)


def test_strangers_are_hung_up_on_and_disturb_no_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_module, "CONNECTIONS_MAX", 8)
    with Agent("node-1", LOOPBACK, SECRET) as agent, running(agent.address) as (lane, reader):
        strangers = [socket.create_connection(agent.address) for _ in range(20)]
        for sock in strangers:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100)
        for sock in strangers:
            readable, _, _ = select.select([sock], [], [], 10.0)
            assert readable
            with sock, suppress(ConnectionResetError):
                assert sock.recv(100) == b""
        lane.ports["echo"].send(admit(1, "still here"))
        assert isinstance(reader.endings(1)[0], Done)
