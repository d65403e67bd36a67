"""Lanes by device: accelerators first, the CPU beside them, one kind alone in the old place."""

import math
from dataclasses import dataclass, field, replace
from unittest.mock import Mock, patch

import pytest

from heddle.app.assembly.embedding_lanes import (
    QUERY_TOKENS,
    SHARED_STEP_S,
    EmbeddingLane,
    device_lines,
    embedding_pool,
    may_take,
    plan_embedding_lanes,
    retrieval_embedder,
)
from heddle.app.assembly.lanes import lane_specs
from heddle.app.assembly.placement import Placement
from heddle.app.assembly.server_plan import plan_server
from heddle.app.embedding_depths import WindveDepths
from heddle.app.server_config import ServerConfig
from heddle.core.credits import Credits
from heddle.core.errors import ConfigError
from heddle.costs.batch_cost import BatchCost
from heddle.costs.lane_cost import LaneCost
from heddle.engines.embedding.admission_policies import Windve
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.engines.embedding.wanted_lanes import wanted_lanes
from heddle.hosts.devices import Device, DeviceKind
from heddle.hosts.process_port import ProcessPort
from heddle.runtime.clock import SystemClock

GPU = Device(DeviceKind.CUDA, 0, "a GPU")
NODES = (
    Device(DeviceKind.CPU, 0, "CPU", (0, 1, 2, 3)),
    Device(DeviceKind.CPU, 1, "CPU", (4, 5, 6, 7)),
)
ALONE = Placement((0, 1), ((2, 3),), 1 << 20, 1 << 30, 1 << 31)
ONE = replace(ALONE, embedding_cores=((3, 2),), is_lent=True, accelerators=1)
PLAN = replace(ALONE, embedding_cores=((3, 2), (7, 6, 5, 4)), accelerators=1)


def names(placement: Placement, *devices: Device, wanted: str = "auto") -> list[str]:
    lanes = plan_embedding_lanes(devices, placement, "float32", wanted=wanted_lanes(wanted))
    return [lane.name for lane in lanes]


def test_a_cpu_alone_keeps_its_place_in_the_retrieval_lane() -> None:
    assert names(ALONE, *NODES) == []
    lane = retrieval_embedder(ALONE, "float32")
    assert lane.line() == "embedding: cpu, float32, 2 threads, cores 0, 1"
    assert retrieval_embedder(replace(ALONE, retrieval_lanes=2), "float32").threads == 1


LANE = EmbeddingLane("embedding-cuda0", "cuda:0", "float32")


@pytest.mark.parametrize(
    ("devices", "lanes", "are_named", "why"),
    [
        (NODES, (), False, "devices: one kind of device"),
        ((GPU, *NODES), (LANE,), True, "lanes: embedding_lanes names one"),
        ((GPU, *NODES), (LANE,), False, "devices: no core is left for it"),
        ((GPU, *NODES), (LANE, LANE), False, ""),
        (NODES, (LANE, LANE), True, ""),
        ((GPU, *NODES), None, False, ""),
    ],
)
def test_the_log_names_each_device_and_why_nothing_spills(
    devices: tuple[Device, ...],
    lanes: tuple[EmbeddingLane, ...] | None,
    are_named: bool,
    why: str,
) -> None:
    found = list(device_lines(devices, lanes, are_named=are_named))
    assert found[: len(devices)] == [device.line() for device in devices]
    assert found[len(devices) :] == ([f"no spill between {why}"] if why else [])


def test_there_is_a_lane_for_each_accelerator_and_for_the_cores_that_the_plan_has() -> None:
    assert names(PLAN, GPU, *NODES) == ["embedding-cuda0", "embedding-cpu0", "embedding-cpu1"]
    assert names(ONE, GPU, *NODES) == ["embedding-cuda0", "embedding-cpu"]
    assert names(ALONE, GPU, *NODES) == ["embedding-cuda0"]


def test_named_lanes_are_those_alone() -> None:
    assert names(PLAN, GPU, *NODES, wanted="cpu:2-3,cpu:4-7") == [
        "embedding-cpu0",
        "embedding-cpu1",
    ]
    other = Device(DeviceKind.CUDA, 1, "a GPU")
    assert names(ALONE, GPU, other, *NODES, wanted="cuda:1") == ["embedding-cuda1"]


def test_a_cpu_lane_has_its_cores_and_the_memory_of_their_node() -> None:
    lane = plan_embedding_lanes((GPU, *NODES), PLAN, "float32")[-1]
    assert (lane.cpus, lane.threads) == ((7, 6, 5, 4), 4)
    assert lane.line() == (
        "embedding-cpu1: cpu, float32, 4 threads, cores 7, 6, 5, 4, memory on node 1, "
        "tokenises on cores 0, 1"
    )
    refused = plan_embedding_lanes((GPU, *NODES), PLAN, "float32", memory_problem="EPERM")[-1]
    with patch("os.sched_getaffinity", return_value=set(range(8))):
        spec = lane.spec("model")
        assert (spec.memory_node, spec.cpus) == (1, (7, 6, 5, 4))
        assert refused.spec("model").memory_node is None
    assert ", memory not bound to its node: EPERM, tokenises" in refused.line()
    one_node = plan_embedding_lanes((GPU, NODES[1]), PLAN, "float32", memory_problem="EPERM")[-1]
    assert "memory" not in one_node.line()


def test_lanes_of_their_own_tokenise_on_the_low_cores() -> None:
    lanes = plan_embedding_lanes((GPU, *NODES), PLAN, "float32")
    assert [lane.tokenizer_cpus for lane in lanes] == [(0, 1)] * 3
    assert lanes[0].spec("model").engines[0].settings.tokenizer_cpus == (0, 1)
    assert retrieval_embedder(ALONE, "float32").tokenizer_cpus is None


def test_only_the_gpu_that_decodes_has_short_steps() -> None:
    other = Device(DeviceKind.CUDA, 1, "a GPU")
    lanes = plan_embedding_lanes((GPU, other, *NODES), PLAN, "float32", decodes_on="cuda:0")
    assert [lane.step_s_max for lane in lanes] == [SHARED_STEP_S, *[math.inf] * 3]
    assert lanes[0].line().endswith("steps of at most 4 ms beside decoding")
    assert lanes[0].spec("model").engines[0].settings.step_s_max == SHARED_STEP_S


def test_without_whole_cores_only_named_lanes_are_pinned() -> None:
    plan = replace(ONE, is_pinned=False)
    lane = plan_embedding_lanes((GPU, *NODES), plan, "float32")[-1]
    assert (lane.cpus, lane.tokenizer_cpus) == ((), ())
    assert lane.threads == 2
    assert lane.line().endswith("any core, tokenises on any core")
    wanted = wanted_lanes("cpu:2-3")
    [lane] = plan_embedding_lanes((GPU, *NODES), plan, "float32", wanted=wanted)
    assert lane.cpus == (3, 2)


@pytest.mark.parametrize("lanes", [(), (EmbeddingLane("embedding-cuda0", "cuda:0", "float32"),)])
def test_lanes_of_their_own_leave_the_retrieval_lane(lanes: tuple[EmbeddingLane, ...]) -> None:
    placement = Placement((0,), (), 0, 1 << 30, 1 << 31, is_pinned=False)
    plan = plan_server(ServerConfig(generator=None, index="corpus"), None)
    specs = lane_specs(replace(plan, placement=placement, embedding=lanes))
    engines = {spec.name: [engine.name for engine in spec.engines] for spec in specs}
    if lanes:
        assert engines == {"retrieval": ["vector"], "embedding-cuda0": ["embedding-cuda0"]}
    else:
        assert engines == {"retrieval": ["embedding", "vector"]}


def test_shards_share_the_retrieval_cores() -> None:
    cores = (0, 1, 2, 3)
    placement = replace(ALONE, retrieval_cpus=cores, is_pinned=False, retrieval_lanes=2)
    plan = plan_server(ServerConfig(generator=None, index="corpus", shards=2), None)
    specs = lane_specs(replace(plan, placement=placement, embedding=()))
    assert [spec.threads for spec in specs] == [2, 2]


@dataclass
class Port:
    """A lane without tasks."""

    name: str
    credits: Credits = field(default_factory=lambda: Credits(4))


def test_a_lane_on_the_llms_cores_takes_nothing_while_that_has_work() -> None:
    llm, cpu, gpu = Port("llm"), Port("embedding-cpu"), Port("embedding-cuda0")
    lanes = [gpu, cpu]
    assert may_take(cpu, lanes, llm)
    llm.credits.take(1)
    assert not may_take(cpu, lanes, llm)
    assert may_take(gpu, lanes, llm)
    assert may_take(cpu, lanes, None)
    llm.credits.give_back(1)
    assert may_take(cpu, lanes, llm)


def test_a_lane_on_the_llms_cores_works_where_the_accelerator_is_lost() -> None:
    llm, cpu, gpu = Port("llm"), Port("embedding-cpu1"), Port("embedding-cuda0")
    llm.credits.take(1)
    with patch("heddle.app.assembly.embedding_lanes.is_ready", lambda port: port is not gpu):
        assert may_take(cpu, [gpu, cpu], llm)
        assert not may_take(gpu, [gpu, cpu], llm)


def test_a_pool_asks_whether_a_lane_may_take_more_and_bounds_what_waits() -> None:
    llm, cpu = Port("llm"), Port("embedding-cpu")
    pool = embedding_pool([cpu], TokenEstimate(256), SystemClock(), tokens_max=1000, lender=llm)
    assert pool.manager.lanes[0].tokens_max == 1000
    with patch("heddle.app.assembly.embedding_lanes.is_ready", return_value=False):
        assert not pool.is_up(cpu)
    assert pool.is_up(cpu)


@pytest.mark.parametrize("fits_prior", [True, False])
def test_a_lane_alone_is_timed_where_its_model_is_another_than_the_priors(fits_prior: bool) -> None:
    port = Mock(spec=ProcessPort)
    port.name = "embedding"
    timed = LaneCost("embedding", BatchCost(0.05, 3e-3), margin=1.2)
    with patch("heddle.app.assembly.embedding_lanes.LaneProbe") as probe:
        probe.return_value.cold_start.return_value = timed
        pool = embedding_pool(
            [port], TokenEstimate(256), SystemClock(), tokens_max=1000, fits_prior=fits_prior
        )
    assert (pool.manager.lanes[0].cost is timed) != fits_prior


def pool_by_depths(windve: WindveDepths) -> LanePool:
    """Return the pool of a lane that takes 0.5 s, and 0.1 s a query."""
    port = Mock(spec=ProcessPort)
    port.name = "embedding"
    cost = LaneCost("embedding", BatchCost.from_queries(0.1, 0.5, QUERY_TOKENS))
    with patch("heddle.app.assembly.embedding_lanes.LaneProbe") as probe:
        probe.return_value.cold_start.return_value = cost
        return embedding_pool(
            [port], TokenEstimate(256), SystemClock(), tokens_max=1_000_000, windve=windve
        )


@pytest.mark.parametrize("found", [None, {"embedding": 3}])
def test_algorithm_1_takes_queries_by_depths_that_are_timed_or_read(
    found: dict[str, int] | None,
) -> None:
    pool = pool_by_depths(WindveDepths(1.0, found))
    assert pool.manager.policy == Windve(found or {"embedding": 5})


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, r"embedding_slo_s is 0.5, and a query of 75 tokens takes up to 0.600 s"),
        ({"embedding": 0}, r"embedding_depths closes every lane .* 0.5: give a longer one"),
    ],
)
def test_depths_that_close_every_lane_are_refused(
    found: dict[str, int] | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        pool_by_depths(WindveDepths(0.5, found))


def test_depths_of_other_lanes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"has depths of a, and .* the lane embedding"):
        embedding_pool(
            [Port("embedding")],
            TokenEstimate(256),
            SystemClock(),
            tokens_max=1000,
            windve=WindveDepths(1.0, {"a": 3}),
        )
