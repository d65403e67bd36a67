"""Lanes by device: accelerators first, the CPU beside them, one kind alone in the old place."""

import math

import pytest

from heddle.app.embedding_lanes import SHARED_STEP_S, EmbeddingLane, plan_embedding_lanes
from heddle.app.lanes import lane_specs
from heddle.app.placement import Placement
from heddle.app.server_config import ServerConfig
from heddle.hosts.devices import Device, DeviceKind

GPU = Device(DeviceKind.CUDA, 0, "a GPU")
NODES = (
    Device(DeviceKind.CPU, 0, "CPU", (0, 1, 2, 3)),
    Device(DeviceKind.CPU, 1, "CPU", (4, 5, 6, 7)),
)
PLAN = Placement((0, 1), (2, 3, 4, 5, 6, 7), 1 << 20, 1 << 30, 1 << 31)


def names(*devices: Device, heterogeneous: bool = True) -> list[str]:
    lanes = plan_embedding_lanes(devices, PLAN, "float32", heterogeneous=heterogeneous)
    return [lane.name for lane in lanes]


def test_a_cpu_alone_keeps_its_place_in_the_retrieval_lane() -> None:
    assert names(*NODES) == []


def test_the_cpu_helps_an_accelerator_unless_it_may_not() -> None:
    assert names(GPU, *NODES) == ["embedding-cuda0", "embedding-cpu"]
    assert names(GPU, *NODES, heterogeneous=False) == ["embedding-cuda0"]


def test_the_cpu_lane_has_the_highest_cores_of_one_node_that_the_plan_leaves() -> None:
    lane = plan_embedding_lanes((GPU, *NODES), PLAN, "float32", heterogeneous=True)[-1]
    assert (lane.cpus, lane.threads) == ((7, 6, 5, 4), 4)
    assert lane.line() == "embedding-cpu: cpu, float32, 4 threads, cores 7, 6, 5, 4"


def test_only_the_gpu_that_decodes_has_short_steps() -> None:
    other = Device(DeviceKind.CUDA, 1, "a GPU")
    lanes = plan_embedding_lanes(
        (GPU, other, *NODES), PLAN, "float32", heterogeneous=True, decodes_on="cuda:0"
    )
    assert [lane.step_s_max for lane in lanes] == [SHARED_STEP_S, math.inf, math.inf]
    assert lanes[0].line().endswith("steps of at most 4 ms beside decoding")
    assert lanes[0].spec("model").engines[0].settings.step_s_max == SHARED_STEP_S


def test_without_whole_cores_nothing_is_pinned() -> None:
    plan = Placement((0, 1), (2, 3), 1 << 20, 1 << 30, 1 << 31, is_pinned=False)
    lane = plan_embedding_lanes((GPU, *NODES), plan, "float32", heterogeneous=True)[-1]
    assert lane.cpus == ()
    assert lane.threads == 2


@pytest.mark.parametrize("lanes", [(), (EmbeddingLane("embedding-cuda0", "cuda:0", "float32"),)])
def test_lanes_of_their_own_leave_the_retrieval_lane(lanes: tuple[EmbeddingLane, ...]) -> None:
    config = ServerConfig(generator=None, index="corpus")
    plan = Placement((0,), (), 0, 1 << 30, 1 << 31, is_pinned=False)
    specs = lane_specs(config, plan, "float32", lanes)
    engines = {spec.name: [engine.name for engine in spec.engines] for spec in specs}
    if lanes:
        assert engines == {"retrieval": ["vector"], "embedding-cuda0": ["embedding-cuda0"]}
    else:
        assert engines == {"retrieval": ["embedding", "vector"]}
