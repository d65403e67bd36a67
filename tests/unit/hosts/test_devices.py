"""Devices from a made-up system: accelerators, NUMA nodes, the cores a lane gets."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from heddle.hosts import devices as module
from heddle.hosts.devices import Device, DeviceKind, detect_devices, node_of
from heddle.hosts.machine import MachineFacts


def machine(cpus: int = 8, flags: frozenset[str] = frozenset(), gpus: int = 0) -> MachineFacts:
    names = tuple(f"GPU {i}" for i in range(gpus))
    return MachineFacts(tuple(range(cpus)), math.inf, "CPU", flags, 1 << 33, 1 << 33, names)


def write_nodes(root: Path, *lists: str) -> None:
    for number, cores in enumerate(lists):
        folder = root / f"sys/devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cores}\n")


def test_one_node_where_the_system_names_none(tmp_path: Path) -> None:
    [device] = detect_devices(machine(4), tmp_path)
    assert (device.kind, device.cpus) == (DeviceKind.CPU, (0, 1, 2, 3))
    assert device.line() == "cpu, NUMA node 0: cores 0, 1, 2, 3, no fast bfloat16"


def test_nodes_hold_only_the_cores_that_may_be_used(tmp_path: Path) -> None:
    write_nodes(tmp_path, "0-3,8-11", "4-7,12-15", "16-31")
    found = detect_devices(machine(8), tmp_path)
    assert [(d.index, d.cpus) for d in found] == [(0, (0, 1, 2, 3)), (1, (4, 5, 6, 7))]


def test_accelerators_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/davinci0").touch()
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    found = detect_devices(machine(gpus=2), tmp_path)
    assert [d.torch_name for d in found] == ["cuda:0", "cuda:1", "npu:0", "cpu"]
    assert found[0].line() == "cuda:0 (GPU 0)"


def test_an_npu_that_torch_can_not_use_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/davinci0").touch()
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert [d.kind for d in detect_devices(machine(), tmp_path)] == [DeviceKind.CPU]


@pytest.mark.parametrize("flag", ["amx_bf16", "avx512_bf16"])
def test_bfloat16_in_hardware_is_seen(tmp_path: Path, flag: str) -> None:
    [device] = detect_devices(machine(flags=frozenset({flag})), tmp_path)
    assert device.has_fast_bfloat16


@pytest.mark.parametrize(
    ("quota", "words"),
    [
        (2.5, "cores 0, 1, 2, 3, by the cgroup's quota 2.5 cores' worth of time, no fast"),
        (0.5, "0.5 cores' worth of time: less than one, so steps are held up, no fast"),
    ],
)
def test_a_quota_is_told_and_what_less_than_a_core_means(
    tmp_path: Path, quota: float, words: str
) -> None:
    [device] = detect_devices(replace(machine(4), cpu_quota=quota), tmp_path)
    assert words in device.line()


def test_cores_have_a_node_where_one_holds_all_of_them() -> None:
    nodes = [Device(DeviceKind.CPU, n, "CPU", cpus) for n, cpus in ((0, (0, 1)), (2, (2, 3)))]
    devices = [Device(DeviceKind.CUDA, 0, "a GPU"), *nodes]
    assert node_of((3, 2), devices) == 2
    assert node_of((1, 2), devices) is None
    assert node_of((), devices) is None
