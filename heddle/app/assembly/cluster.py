"""A server's nodes: where they come from, and what starts lanes there."""

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from heddle.app.assembly.cluster_plan import ClusterPlan, NodeFacts
from heddle.app.server_config import ServerConfig
from heddle.hosts.lane_process import LaneProcess, StartedLane
from heddle.hosts.lane_spec import LaneSpec
from heddle.hosts.nodes.address import agent_addresses
from heddle.hosts.nodes.facts import Node, ask_nodes, hold
from heddle.hosts.nodes.messages import LaneBody
from heddle.hosts.nodes.ray_agents import start_ray_agents
from heddle.hosts.nodes.remote_process import RemoteProcess
from heddle.hosts.nodes.secret import read_secret
from heddle.runtime.supervision import LaneLimits

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes that a server's LLM lanes may stand on; () = it has none but its own machine."""

    nodes: tuple[Node, ...] = ()
    secret: bytes = b""

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """What a plan is made of."""
        return tuple(NodeFacts(n.name, n.machine, n.numa_nodes) for n in self.nodes)

    def starter(
        self, plan: ClusterPlan | None, limits: LaneLimits
    ) -> Callable[[LaneSpec], StartedLane]:
        """Return what starts each lane where the plan says."""
        return LaneProcess if plan is None else NodeStarter(self, plan, limits)


def open_cluster(config: ServerConfig, ending: ExitStack) -> Cluster:
    """Return the nodes that a configuration names, which have proved themselves.

    Raises:
        ConfigError: one can't be used; the message names the setting.
    Mutates: `ending` takes in how to let go of the nodes.
    """
    if config.ray is not None:
        return _ray_cluster(config, ending)
    if config.agents is None:
        return Cluster()
    secret = _secret(config)
    return Cluster(ask_nodes(agent_addresses(config.agents), secret, "agents"), secret)


def _ray_cluster(config: ServerConfig, ending: ExitStack) -> Cluster:
    """Start agents on a Ray cluster, which leave when this server lets go of them."""
    secret = secrets.token_bytes(32) if config.cluster_secret_file is None else _secret(config)
    cluster = Cluster(ask_nodes(start_ray_agents(str(config.ray), secret), secret, "ray"), secret)
    for node in cluster.nodes:
        ending.callback(hold(node, secret).close)
    return cluster


def _secret(config: ServerConfig) -> bytes:
    return read_secret(Path(str(config.cluster_secret_file)))


class NodeStarter:
    """Starts lanes on their nodes, and on another one that has room where a node is lost.

    What has no place on a node, such as what reads the corpus, starts on this machine. Lanes start
    from threads of their own.

    Mutates: each start notes the lane's node before it is tried, so two never take one place.
    """

    def __init__(self, cluster: Cluster, plan: ClusterPlan, limits: LaneLimits) -> None:
        self._nodes = {node.name: node for node in cluster.nodes}
        self._secret = cluster.secret
        self._plan = plan
        self._limits = limits
        self._lock = threading.Lock()
        self._where = {lane: place.node for lane, place in plan.places.items()}

    def __call__(self, spec: LaneSpec) -> StartedLane:
        """Start a lane.

        Raises: OSError: no node that has room can be reached.
        """
        if spec.name not in self._plan.places:
            return LaneProcess(spec)
        problems: list[str] = []
        tried: set[str] = set()
        while (where := self._reserve(spec.name, tried)) is not None:
            started = self._try(spec.name, where, problems)
            if started is not None:
                return started
        raise ConnectionError("; ".join(problems) or "no node has room for it")

    def _reserve(self, lane: str, tried: set[str]) -> tuple[Node, LaneBody] | None:
        """Take the next place that the lane can have, and return it."""
        with self._lock:
            options = self._plan.options(lane, self._where)
            place = next((place for place in options if place.node not in tried), None)
            if place is None:
                return None
            tried.add(place.node)
            self._where[lane] = place.node
        return self._nodes[place.node], LaneBody(lane, place.cpus, place.threads)

    def _try(
        self, lane: str, where: tuple[Node, LaneBody], problems: list[str]
    ) -> StartedLane | None:
        node, body = where
        try:
            started = RemoteProcess(body, node.name, node.address, self._secret, self._limits)
        except OSError as error:
            log.warning("lane %s can't start on node %s: %s", lane, node.name, error)
            problems.append(str(error))
            return None
        if node.name != self._plan.places[lane].node:
            log.warning("lane %s was planned for another node and runs on %s", lane, node.name)
        return started
