"""Agents on a Ray cluster: started by Ray, gone with their server, refused without a token."""

import contextlib
import secrets
import socket

import pytest

from benchmarks.support.ray_head import RayHead, ray_token
from heddle.core.errors import ConfigError
from heddle.core.frames import Done
from heddle.hosts.lane_process import StartedLane
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.facts import ask_nodes, hold
from heddle.hosts.nodes.ray_agents import start_ray_agents
from heddle.hosts.nodes.remote_process import RemoteProcess
from heddle.hosts.process import ProcessLane
from heddle.runtime.supervision import LaneLimits
from tests.helpers.echo_engine import CRASH, KINDS, EchoSettings, admit
from tests.helpers.own_network import in_own_network
from tests.helpers.port_reader import PortReader
from tests.helpers.server_state import eventually

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.slow
SECRET = secrets.token_bytes(32)


@in_own_network
def test_a_cluster_without_a_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with RayHead() as head, pytest.raises(ConfigError, match="has no token: everybody who reaches"):
        start_ray_agents(head.address, SECRET)


@in_own_network
def test_lanes_need_no_head_and_a_new_place_needs_one() -> None:
    limits = LaneLimits(backoff_s=0.01)
    with contextlib.ExitStack() as ending:
        ending.enter_context(ray_token())
        head = ending.enter_context(RayHead())
        (node,) = ask_nodes(start_ray_agents(head.address, SECRET), SECRET, "ray")
        ending.callback(hold(node, SECRET).close)

        def start(spec: LaneSpec) -> StartedLane:
            return RemoteProcess(spec, node.name, node.address, SECRET, limits)

        echo = EngineSpec("echo", "tests.helpers.echo_engine:build", EchoSettings(), 8, KINDS)
        lane = ending.enter_context(ProcessLane(LaneSpec("lane", (echo,)), limits, start))
        port = lane.ports["echo"]
        reader = PortReader(port)
        port.send(admit(1, "with Ray"))
        assert isinstance(reader.endings(1)[0], Done)

        head.kill()
        port.send(admit(2, "without Ray"))
        assert isinstance(reader.endings(2)[0], Done)
        assert lane.epoch == 1
        with pytest.raises(ConfigError, match=f"ray: no head .* answers at {head.address}"):
            start_ray_agents(head.address, SECRET)
        port.send(admit(3, CRASH))
        reader.endings(3)
        port.send(admit(4, "started again without Ray"))
        assert isinstance(reader.endings(4)[0], Done)

        head.start()
        (other,) = ask_nodes(start_ray_agents(head.address, SECRET), SECRET, "ray")
        hold(other, SECRET).close()
        assert other.address != node.address
        port.send(admit(5, "beside a new head"))
        assert isinstance(reader.endings(5)[0], Done)
    for address in (node.address, other.address):
        eventually(lambda address=address: not listens(address))


def listens(address: Address) -> bool:
    try:
        socket.create_connection(address, timeout=1.0).close()
    except OSError:
        return False
    return True
