"""Lanes start on their planned nodes, and on another one where a node is lost."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from heddle.app.assembly.cluster import open_cluster
from heddle.app.assembly.cluster_plan import ClusterDemand, plan_cluster
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.core.frames import Done
from heddle.engines.llm.lanes.lane_role import LaneRole
from heddle.hosts.devices import numa_nodes
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.machine import read_machine
from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.agent import Agent
from heddle.hosts.nodes.secret import read_secret, write_secret
from heddle.hosts.process import start_lanes
from heddle.runtime.supervision import LaneLimits
from tests.helpers.echo_engine import KINDS, EchoSettings, admit
from tests.helpers.port_reader import PortReader

pytestmark = pytest.mark.slow
LIMITS = LaneLimits(backoff_s=0.01)
TWO = (LaneRole.BOTH, LaneRole.BOTH)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    write_secret(file)
    return file


@pytest.fixture
def agents(secret: Path) -> Iterator[tuple[Agent, ...]]:
    anywhere, known = Address("127.0.0.1", 0), read_secret(secret)
    with ExitStack() as ending:
        names = ("north", "east", "south")
        yield tuple(ending.enter_context(Agent(name, anywhere, known)) for name in names)


def config_of(agents: tuple[Agent, ...], secret: Path) -> ServerConfig:
    addresses = ",".join(str(agent.address) for agent in agents)
    return ServerConfig.of("reader", "corpus", {"agents": addresses, "cluster_secret_file": secret})


def spec(name: str) -> LaneSpec:
    engine = EngineSpec(name, "tests.helpers.echo_engine:build", EchoSettings(), 64, KINDS)
    return LaneSpec(name, (engine,))


def test_a_lane_whose_node_is_lost_starts_where_there_is_room(
    agents: tuple[Agent, ...], secret: Path
) -> None:
    with ExitStack() as ending:
        cluster = open_cluster(config_of(agents, secret), ending)
        assert [facts.name for facts in cluster.facts] == ["north", "east", "south"]
        cores = [cpus for _, cpus in numa_nodes(read_machine().cpus)]
        assert [list(facts.numa_nodes) for facts in cluster.facts] == [cores] * 3
        plan = plan_cluster(cluster.facts, ClusterDemand(TWO, llm_bytes=1, kv_bytes=1))
        names = ("retrieval", *plan.places)
        lanes = start_lanes(tuple(map(spec, names)), LIMITS, cluster.starter(plan, LIMITS))
        for lane in lanes:
            ending.callback(lane.close)
        assert [lane.health.place for lane in lanes] == ["", "north", "east"]
        port = lanes[1].ports["llm-both-0"]
        reader = PortReader(port)
        port.send(admit(1, "a"))
        assert isinstance(reader.endings(1)[0], Done)
        agents[0].close()
        port.send(admit(2, "b"))
        reader.endings(2)  # it may have been sent to the lost lane
        port.send(admit(3, "c"))
        assert isinstance(reader.endings(3)[0], Done)
        assert [lane.health.place for lane in lanes] == ["", "south", "east"]
        assert lanes[2].epoch == 1


def test_an_agent_that_is_not_there_is_named(agents: tuple[Agent, ...], secret: Path) -> None:
    config = config_of(agents, secret)
    agents[1].close()
    with ExitStack() as ending, pytest.raises(ConfigError) as raised:
        open_cluster(config, ending)
    assert f"agents: no agent answers at {agents[1].address}" in str(raised.value)
