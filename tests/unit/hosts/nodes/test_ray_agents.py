"""Agents on a Ray cluster: started by Ray, gone with their server, refused without a token."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

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
PORT = 6379  # in a network of its own
RAY = (sys.executable, "-m", "ray.scripts.scripts")


@contextlib.contextmanager
def ray_cluster(**environment: str) -> Iterator[str]:
    """Start the head of a cluster, and stop that one alone at last."""
    options = ("--head", "--block", f"--port={PORT}", "--num-cpus=1")
    small = ("--include-dashboard=false", "--object-store-memory=80000000")
    # A short path: the names of sockets in it may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "HOME": folder}
        process = subprocess.Popen(
            [*RAY, "start", *options, *small, f"--temp-dir={folder}"],
            env={**os.environ, **quiet, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout:
            said = ""
            while "Ray runtime started" not in said and (line := process.stdout.readline()):
                said += line
            assert process.poll() is None, said
            try:
                yield f"127.0.0.1:{PORT}"
            finally:
                process.terminate()
                process.wait()


@in_own_network
def test_a_cluster_without_a_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with (
        ray_cluster(RAY_AUTH_MODE="disabled") as address,
        pytest.raises(ConfigError, match="has no token: everybody who reaches it"),
    ):
        start_ray_agents(address, SECRET)


@in_own_network
def test_agents_outlive_the_head_and_leave_with_their_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in token.items():
        monkeypatch.setenv(name, value)
    limits = LaneLimits(backoff_s=0.01)
    with contextlib.ExitStack() as ending:
        with ray_cluster(**token) as address:
            (node,) = ask_nodes(start_ray_agents(address, SECRET), SECRET, "ray")
            held = hold(node, SECRET)
            ending.callback(held.close)

            def start(spec: LaneSpec) -> StartedLane:
                return RemoteProcess(spec, node.name, node.address, SECRET, limits)

            echo = EngineSpec("echo", "tests.helpers.echo_engine:build", EchoSettings(), 8, KINDS)
            lane = ending.enter_context(ProcessLane(LaneSpec("lane", (echo,)), limits, start))
            port = lane.ports["echo"]
            reader = PortReader(port)
            port.send(admit(1, "with Ray"))
            assert isinstance(reader.endings(1)[0], Done)
        port.send(admit(2, "without Ray"))
        assert isinstance(reader.endings(2)[0], Done)
        assert lane.epoch == 1
        port.send(admit(3, CRASH))
        reader.endings(3)
        port.send(admit(4, "started again without Ray"))
        assert isinstance(reader.endings(4)[0], Done)
    eventually(lambda: not listens(node.address))


def listens(address: Address) -> bool:
    try:
        socket.create_connection(address, timeout=1.0).close()
    except OSError:
        return False
    return True
