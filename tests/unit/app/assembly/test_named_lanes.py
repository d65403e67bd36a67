"""Lanes that a machine hasn't."""

import math
from dataclasses import replace

import pytest

from heddle.app.assembly.named_lanes import check_named_lanes, ranges
from heddle.core.errors import ConfigError
from heddle.engines.embedding.wanted_lanes import wanted_lanes
from heddle.hosts.devices import Device, DeviceKind
from heddle.hosts.machine import MachineFacts

NODES = (
    Device(DeviceKind.CPU, 0, "CPU", (0, 1, 2, 3)),
    Device(DeviceKind.CPU, 1, "CPU", (4, 5, 6, 7)),
)
GPU = Device(DeviceKind.CUDA, 0, "a GPU")
MACHINE = MachineFacts(tuple(range(8)), math.inf, "Test", frozenset(), 1 << 34, 1 << 34, ())


def check(text: str, *devices: Device, machine: MachineFacts = MACHINE) -> None:
    lanes = wanted_lanes(text)
    assert lanes is not None
    check_named_lanes(lanes, devices or (GPU, *NODES), machine)


def test_lanes_inside_nodes_are_taken() -> None:
    check("cpu:0-3,cpu:4-5,cpu:6+7,cuda:0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu:7-8", "names core 8, and this process may use the cores 0-7"),
        ("cpu:2-5+7", "cpu:2-5[+]7 lies on 2 NUMA nodes; .* its own lane: cpu:2-3,cpu:4-5[+]7"),
        ("cuda:1", "names cuda:1, and there are cuda:0"),
        ("npu:0", "names npu:0, and there are cuda:0"),
    ],
)
def test_what_is_not_there_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"embedding_lanes.*{message}"):
        check(text)


def test_no_accelerator_is_there() -> None:
    with pytest.raises(ConfigError, match="names cuda:0, and there is no accelerator"):
        check("cuda:0", *NODES)


def test_more_cores_or_lanes_than_may_be_used_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"names 4 cores, and the cgroup's quota .* of 3"):
        check("cpu:0-3", machine=replace(MACHINE, cpu_quota=3.0))
    two = replace(MACHINE, cpus=(0, 1))
    with pytest.raises(ConfigError, match="names 3 lanes, and this process may use 2 cores"):
        check("cpu:0,cpu:1,cuda:0", machine=two)


def test_cores_are_written_as_a_lane_writes_them() -> None:
    assert ranges((9, 3, 2, 1)) == "1-3+9"
