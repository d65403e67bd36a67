"""Agents on a Ray cluster: started by Ray, gone with their server, refused without a token."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
from tests.helpers.port_reader import PortReader
from tests.helpers.server_state import eventually

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.slow
SECRET = secrets.token_bytes(32)
RAY = (sys.executable, "-m", "ray.scripts.scripts")


@contextlib.contextmanager
def ray_cluster(folder: Path, port: int, **environment: str) -> Iterator[str]:
    """Start a Ray head on the loopback interface, and stop that one alone at last."""
    env = {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DISABLE_IMPORT_WARNING": "1",
        "HOME": str(folder),
        **environment,
    }
    options = ("--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=1")
    small = ("--include-dashboard=false", "--object-store-memory=80000000", "--block")
    process = subprocess.Popen(
        [*RAY, "start", *options, *small, f"--temp-dir={folder}/ray"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if "Ray runtime started" in line:
            break
    try:
        assert process.poll() is None, "".join(lines)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.stdout.close()
        process.wait()


def test_a_cluster_without_a_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with (
        ray_cluster(tmp_path, 16379, RAY_AUTH_MODE="disabled") as address,
        pytest.raises(ConfigError, match="has no token: everybody who reaches it"),
    ):
        start_ray_agents(address, SECRET)


def test_agents_outlive_the_head_and_leave_with_their_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in token.items():
        monkeypatch.setenv(name, value)
    limits = LaneLimits(backoff_s=0.01)
    with contextlib.ExitStack() as ending:
        with ray_cluster(tmp_path, 16380, **token) as address:
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
