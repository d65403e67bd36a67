"""LLM lanes find places on nodes wherever there are any, and a refusal says the numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app.assembly.cluster_demand import cluster_demand
from heddle.app.assembly.cluster_plan import (
    ClusterDemand,
    LanePlace,
    NodeFacts,
    lanes_that_fit,
    limit_bytes,
    plan_cluster,
)
from heddle.app.assembly.demand import KV_BYTES_MIN
from heddle.app.assembly.placement import PROCESS_BYTES
from heddle.app.models.model_files import ModelFiles
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names
from heddle.hosts.machine import MachineFacts

GIB = 1 << 30
BOTH, PREFILL, DECODE = LaneRole.BOTH, LaneRole.PREFILL, LaneRole.DECODE
LLM_BYTES = GIB - PROCESS_BYTES - KV_BYTES_MIN  # a lane takes 1 GiB


def machine(cores: int = 4, gib: float = 10.0, gpus: int = 0, *flags: str) -> MachineFacts:
    memory = int(gib * GIB)
    cpus = tuple(range(cores))
    names = ("H200",) * gpus
    return MachineFacts(cpus, float(cores), "cpu", frozenset(flags), memory, memory, names)


def nodes(*machines: MachineFacts) -> tuple[NodeFacts, ...]:
    return tuple(NodeFacts(f"n{i}", facts, (facts.cpus,)) for i, facts in enumerate(machines))


def demand(*roles: LaneRole, **more: object) -> ClusterDemand:
    return ClusterDemand(roles or (BOTH,), LLM_BYTES, **more)  # type: ignore[arg-type]


def some_places(room: Sequence[int], counts: Sequence[int]) -> Iterator[None]:
    """Yield once for every way to give each role's lanes different nodes; slow, and obvious."""
    if not counts:
        yield None
        return
    for chosen in combinations([i for i, left in enumerate(room) if left], counts[0]):
        rest = [left - (i in chosen) for i, left in enumerate(room)]
        yield from some_places(rest, counts[1:])


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_a_plan_is_found_exactly_where_there_is_one(
    sizes: list[tuple[int, int]], prefills: int, decodes: int
) -> None:
    roles = (PREFILL,) * prefills + (DECODE,) * decodes or (BOTH,)
    cluster = nodes(*(machine(cores, gib / 0.8) for cores, gib in sizes))
    room = [lanes_that_fit(node.machine, demand(*roles).lane_bytes, False) for node in cluster]
    counts = [roles.count(role) for role in set(roles)]
    is_possible = next(some_places(room, counts), False) is None
    if not is_possible:
        with pytest.raises(ConfigError, match="LLM lanes"):
            plan_cluster(cluster, demand(*roles))
        return
    plan = plan_cluster(cluster, demand(*roles))
    assert list(plan.places) == list(lane_names(roles))
    machines = {node.name: node.machine for node in cluster}
    for role in set(roles):
        own = [p.node for p, r in zip(plan.places.values(), roles, strict=True) if r is role]
        assert len(set(own)) == len(own), "equal lanes stand on different nodes"
    for name, facts in machines.items():
        here = [place for place in plan.places.values() if place.node == name]
        assert len(here) * (PROCESS_BYTES + LLM_BYTES + plan.kv_bytes) <= limit_bytes(facts)
        cores = [core for place in here for core in place.cpus]
        assert len(set(cores)) == len(cores) == sum(place.threads for place in here)
        assert set(cores) <= set(facts.cpus)
        assert all(place.threads for place in here)


def test_lanes_are_spread_before_they_share_a_node() -> None:
    cluster = nodes(machine(), machine(), machine())
    plan = plan_cluster(cluster, demand(PREFILL, DECODE, DECODE))
    assert sorted(place.node for place in plan.places.values()) == ["n0", "n1", "n2"]


def test_a_lane_stays_inside_a_numa_node_of_its_machine() -> None:
    low, high = (0, 1, 2, 3), (4, 5, 6, 7, 8, 9)
    large = NodeFacts("n0", machine(10), (low, high))
    alone = plan_cluster([large], demand())
    assert alone.places["llm"] == LanePlace("n0", high, 6)
    pair = plan_cluster([large], demand(PREFILL, DECODE))
    assert [place.cpus for place in pair.places.values()] == [high, low]
    under_quota = large._replace(machine=replace(large.machine, cpu_quota=5.0))
    assert plan_cluster([under_quota], demand()).places["llm"] == LanePlace("n0", (), 5)


def test_more_equal_lanes_than_nodes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"want 3 LLM lanes of role both.*the nodes are 2"):
        plan_cluster(nodes(machine(), machine()), demand(BOTH, BOTH, BOTH))


def test_a_refusal_says_what_each_node_has() -> None:
    with pytest.raises(ConfigError) as raised:
        plan_cluster(nodes(machine(gib=1.0), machine(2, 4.0)), demand(BOTH, BOTH))
    assert "2 LLM lanes, each with 1,024 MiB" in str(raised.value)
    assert "n0 fits 0 of them in 819 MiB, 4 cores and 0 GPUs" in str(raised.value)
    assert "n1 fits 2 of them in 3,277 MiB, 2 cores" in str(raised.value)


def test_a_lane_that_needs_a_gpu_gets_a_node_with_one() -> None:
    cluster = nodes(machine(), machine(4, 10.0, 2))
    plan = plan_cluster(cluster, demand(needs_gpu=True))
    assert plan.places["llm"].node == "n1"
    with pytest.raises(ConfigError, match=r"a core and a GPU.*n0 fits 0 of them.*0 GPUs"):
        plan_cluster(cluster, demand(BOTH, BOTH, needs_gpu=True))


def test_kv_and_packed_weights_take_what_every_node_has_left() -> None:
    rich, poor = machine(gib=40.0), machine(gib=1.3 / 0.8)
    assert plan_cluster(nodes(rich), demand(packed_bytes=LLM_BYTES)).packs_weights
    both = plan_cluster(nodes(rich, poor), demand(BOTH, BOTH, packed_bytes=LLM_BYTES))
    assert not both.packs_weights
    assert KV_BYTES_MIN < both.kv_bytes < GIB // 4
    fixed = plan_cluster(nodes(rich), demand(kv_bytes=5 * GIB))
    assert fixed.kv_bytes == 5 * GIB


def test_a_lane_whose_node_is_lost_goes_where_there_is_room() -> None:
    cluster = nodes(machine(2), machine(2), machine(2), machine(2, 0.5))
    plan = plan_cluster(cluster, demand(BOTH, BOTH, kv_bytes=KV_BYTES_MIN))
    where = {lane: place.node for lane, place in plan.places.items()}
    lost, other = "llm-both-0", where["llm-both-1"]
    options = plan.options(lost, where)
    assert options[0] == plan.places[lost]
    assert [place.node for place in options] == ["n0", "n2"]
    assert other not in [place.node for place in options], "its equal stands there"
    assert options[1].threads == 2


def test_nodes_that_would_compute_differently_are_refused() -> None:
    files = ModelFiles(Path("model"), LLM_BYTES // 2, "model-1")
    plain, amx, gpu = machine(), machine(4, 10.0, 0, "amx_bf16"), machine(4, 10.0, 1)

    def needs(*machines: MachineFacts, **settings: object) -> ClusterDemand:
        config = ServerConfig.of("reader", "corpus", settings)
        return cluster_demand(config, files, (BOTH,), nodes(*machines))

    assert needs(plain, plain).packed_bytes == LLM_BYTES // 2 * 2
    with pytest.raises(ConfigError, match="dtype is auto: nodes n1 multiply bfloat16"):
        needs(plain, amx)
    assert not needs(plain, amx, dtype="bfloat16").packed_bytes
    with pytest.raises(ConfigError, match="nodes n1 have a GPU and n0 none"):
        needs(plain, gpu)
    assert needs(plain, gpu, device="cuda").needs_gpu
    assert needs(gpu, replace(gpu, cpu_model="other")).needs_gpu
