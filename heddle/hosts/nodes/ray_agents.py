"""Agents on the nodes of a Ray cluster: Ray starts them, and is not needed any more afterwards.

`start_ray_agents` runs a helper process, which connects to the cluster, has one task a node start
an agent there, and leaves: a driver dies with the head of its cluster, and a server must not. Such
an agent belongs to one server. It leaves when that server lets go of it (`hold`), so nothing is
left behind. No frame passes through Ray, and no usage statistics are sent.

This is the one file that imports ray (the extra `ray`).
"""

import base64
import json
import logging
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from heddle.core.errors import ConfigError
from heddle.hosts.nodes.address import CONNECT_S_MAX, Address

START_S_MAX: Final = 60.0
PROBE_S_MAX: Final = 15.0
_HELPER: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from heddle.hosts.nodes.ray_agents import helper_main; helper_main()"
)
# Two processes: the first leaves at once, so the agent is no child of Ray's worker, whose children
# Ray kills with it.
_AGENT: Final = (
    "import os, sys; sys.path[:] = sys.argv[3:]; os.fork() and os._exit(0); "
    "from heddle.hosts.nodes.held_agent import main; main(sys.argv[1], sys.argv[2])"
)
# Whether a stranger without a token may read a cluster's tables.
_PROBE: Final = (
    "import sys; from ray._raylet import GcsClient; "
    "GcsClient(address=sys.argv[1]).internal_kv_get(b'heddle', namespace=b'heddle')"
)
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0"}


def start_ray_agents(address: str, secret: bytes) -> tuple[Address, ...]:
    """Start an agent on each node of a Ray cluster, the server's own node last.

    Args:
        address: the cluster's, HOST:PORT; auto = the one that this machine belongs to.
        secret: the agents'.

    Raises:
        ConfigError: ray isn't installed, there is no such cluster, or it serves all comers.
    """
    if find_spec("ray") is None:
        raise ConfigError("ray: the package isn't installed: pip install 'heddle[ray]'")
    wanted = json.dumps({"address": address, "secret": base64.b64encode(secret).decode()})
    search_path = [str(Path(entry).absolute()) for entry in sys.path]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _HELPER, *search_path],
            input=wanted,
            capture_output=True,
            text=True,
            env={**os.environ, **_QUIET},
            timeout=START_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"ray: the cluster {address} did not start agents within {START_S_MAX:g} s: look at "
            "`ray status`"
        ) from error
    lines = done.stdout.strip().splitlines()
    said = json.loads(lines[-1]) if done.returncode == 0 and lines else {}
    if "agents" not in said:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ConfigError(f"ray: {said.get('error', last)}")
    return tuple(Address(host, port) for host, port in said["agents"])


def helper_main() -> None:
    """Do what stdin asks for; print the result as the last line of stdout."""
    asked = json.load(sys.stdin)
    try:
        result: dict[str, object] = {"agents": _start_agents(asked["address"], asked["secret"])}
    except ConfigError as error:
        result = {"error": str(error)}
    print(json.dumps(result), flush=True)
    os._exit(0)  # not to wait for what ray does at exit


def _start_agents(address: str, secret: str) -> list[tuple[str, int]]:
    """Return the addresses of new agents, one on each node.

    Raises: ConfigError.
    """
    import ray
    from ray._private import services
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    try:
        _find_head(services.canonicalize_bootstrap_address_or_die(address))
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ConfigError:
        raise
    except Exception as error:  # ConnectionError, AuthenticationError, RuntimeError and others
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"the cluster {address} can't be used ({first}): start one with `ray start`, and set "
            "RAY_AUTH_MODE=token with its token here, too"
        ) from error
    context = ray.get_runtime_context()
    _refuse_open(context.gcs_address)
    own = context.get_node_id()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    nodes.sort(key=lambda node: (node["NodeID"] == own, node["NodeManagerHostname"]))
    start = ray.remote(num_cpus=0, max_retries=0)(_spawn_agent)
    refs: list[Any] = []
    for node in nodes:
        where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        name = f"{node['NodeManagerHostname']}-{node['NodeID'][:6]}"
        host = node["NodeManagerAddress"]
        refs.append(start.options(scheduling_strategy=where).remote(name, host, secret))
    try:
        ports = ray.get(refs, timeout=START_S_MAX / 2)
    except Exception as error:
        first = str(error).strip().splitlines()[-1]
        raise ConfigError(f"an agent could not be started: {first}") from error
    hosts = [node["NodeManagerAddress"] for node in nodes]
    return list(zip(hosts, ports, strict=True))


def _find_head(gcs_address: str) -> None:
    """See that a cluster's head listens; ray itself tries for a minute.

    Raises: ConfigError.
    """
    try:
        socket.create_connection(Address.of(gcs_address, "ray"), timeout=CONNECT_S_MAX).close()
    except OSError as error:
        raise ConfigError(
            f"no head of a cluster answers at {gcs_address} ({error}): start it (`ray start "
            "--head`), then this server; servers that run already go on without it"
        ) from error


def _refuse_open(gcs_address: str) -> None:
    """Refuse a cluster that serves a stranger who has no token.

    Raises: ConfigError.
    """
    stranger = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, gcs_address],
        env={**stranger, **_QUIET, "RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        timeout=PROBE_S_MAX,
        check=False,
    )
    if done.returncode == 0:
        raise ConfigError(
            f"the cluster at {gcs_address} has no token: everybody who reaches it may run programs "
            "there; start all its nodes with RAY_AUTH_MODE=token (`ray get-auth-token --generate`)"
        )


def _spawn_agent(name: str, host: str, secret: str) -> int:
    """Start an agent on the node that this task runs on; return its port."""
    environment = dict(os.environ)
    if not environment.get("CUDA_VISIBLE_DEVICES", "all"):
        del environment["CUDA_VISIBLE_DEVICES"]  # Ray hides the GPUs from a task that asks for none
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _AGENT, name, host, *map(os.path.abspath, sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(secret + "\n")
        process.stdin.flush()
        port = int(process.stdout.readline())
    process.wait()
    return port
