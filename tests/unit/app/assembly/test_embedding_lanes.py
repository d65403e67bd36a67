"""Lanes by device: accelerators first, the CPU beside them, one kind alone in the old place."""

import math
from dataclasses import dataclass, field, replace
from unittest.mock import Mock, patch

import pytest

from heddle.app.assembly.embedding_lanes import (
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
from heddle.app.server_config import ServerConfig
from heddle.core.credits import Credits
from heddle.costs.batch_cost import BatchCost
from heddle.costs.lane_cost import LaneCost
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.hosts.devices import Device, DeviceKind
from heddle.hosts.process_port import ProcessPort
from heddle.runtime.clock import SystemClock

GPU = Device(DeviceKind.CUDA, 0, "a GPU")
NODES = (
    Device(DeviceKind.CPU, 0, "CPU", (0, 1, 2, 3)),
    Device(DeviceKind.CPU, 1, "CPU", (4, 5, 6, 7)),
)
CPUS = (2, 3, 4, 5, 6, 7)
ALONE = Placement((0, 1), CPUS, 1 << 20, 1 << 30, 1 << 31)
PLAN = replace(ALONE, embedding_cpus=CPUS, is_lent=True, accelerators=1)


def names(placement: Placement, *devices: Device) -> list[str]:
    return [lane.name for lane in plan_embedding_lanes(devices, placement, "float32")]


def test_a_cpu_alone_keeps_its_place_in_the_retrieval_lane() -> None:
    assert names(ALONE, *NODES) == []
    lane = retrieval_embedder(ALONE, "float32")
    assert lane.line() == "embedding: cpu, float32, 2 threads, cores 0, 1"
    assert retrieval_embedder(replace(ALONE, retrieval_lanes=2), "float32").threads == 1


@pytest.mark.parametrize(
    ("devices", "wanted", "placement", "why"),
    [
        (NODES, True, ALONE, "one kind of device"),
        ((GPU, *NODES), False, ALONE, "switched off"),
        ((GPU, *NODES), True, ALONE, "no core is left for it"),
        ((GPU, *NODES), True, PLAN, ""),
        ((GPU, *NODES), True, None, ""),
    ],
)
def test_the_log_names_each_device_and_why_nothing_spills(
    devices: tuple[Device, ...], wanted: bool, placement: Placement | None, why: str
) -> None:
    found = list(device_lines(devices, wanted, placement))
    assert found[: len(devices)] == [device.line() for device in devices]
    assert found[len(devices) :] == ([f"no spill between devices: {why}"] if why else [])


def test_the_cpu_helps_an_accelerator_where_the_plan_has_cores_for_it() -> None:
    assert names(PLAN, GPU, *NODES) == ["embedding-cuda0", "embedding-cpu"]
    assert names(ALONE, GPU, *NODES) == ["embedding-cuda0"]


def test_the_cpu_lane_has_the_highest_cores_of_one_node_that_the_plan_leaves() -> None:
    lane = plan_embedding_lanes((GPU, *NODES), PLAN, "float32")[-1]
    assert (lane.cpus, lane.threads) == ((7, 6, 5, 4), 4)
    assert lane.line() == (
        "embedding-cpu: cpu, float32, 4 threads, cores 7, 6, 5, 4, tokenises on cores 0, 1"
    )


def test_lanes_of_their_own_tokenise_on_the_low_cores() -> None:
    lanes = plan_embedding_lanes((GPU, *NODES), PLAN, "float32")
    assert [lane.tokenizer_cpus for lane in lanes] == [(0, 1)] * 2
    assert lanes[0].spec("model").engines[0].settings.tokenizer_cpus == (0, 1)
    assert retrieval_embedder(ALONE, "float32").tokenizer_cpus is None


def test_only_the_gpu_that_decodes_has_short_steps() -> None:
    other = Device(DeviceKind.CUDA, 1, "a GPU")
    lanes = plan_embedding_lanes((GPU, other, *NODES), PLAN, "float32", decodes_on="cuda:0")
    assert [lane.step_s_max for lane in lanes] == [SHARED_STEP_S, math.inf, math.inf]
    assert lanes[0].line().endswith("steps of at most 4 ms beside decoding")
    assert lanes[0].spec("model").engines[0].settings.step_s_max == SHARED_STEP_S


def test_without_whole_cores_nothing_is_pinned() -> None:
    plan = replace(PLAN, embedding_cpus=(2, 3), is_pinned=False)
    lane = plan_embedding_lanes((GPU, *NODES), plan, "float32")[-1]
    assert (lane.cpus, lane.tokenizer_cpus) == ((), ())
    assert lane.threads == 2
    assert lane.line().endswith("any core, tokenises on any core")


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
    llm, cpu, gpu = Port("llm"), Port("embedding-cpu"), Port("embedding-cuda0")
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
