"""Machine facts are read from the system's files; here from a made-up tree of them."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from heddle.hosts.machine import MachineFacts, memory_left, read_machine

MIB = 1 << 20
GIB = 1 << 30


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/meminfo", "MemTotal:       33554432 kB\nMemFree: 1 kB\n")
    write(
        tmp_path,
        "proc/cpuinfo",
        "processor : 0\nmodel name\t: Some CPU 9000\nflags\t\t: fpu avx2 avx512f amx_bf16 sse\n",
    )
    return tmp_path


def test_a_plain_machine(root: Path) -> None:
    facts = read_machine(root)
    assert facts.memory_total_bytes == facts.memory_limit_bytes == 32 * GIB
    assert facts.cpu_model == "Some CPU 9000"
    assert facts.cpu_flags == {"avx2", "avx512f", "amx_bf16"}
    assert facts.has_fast_bfloat16
    assert facts.cpu_quota == math.inf
    assert facts.cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert facts.cores == len(facts.cpus)
    assert facts.gpus == ()


def test_cgroup_v2_takes_the_tightest_limit_on_the_way_up(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/pod/container\n")
    write(root, "sys/fs/cgroup/pod/container/cpu.max", "max 100000\n")
    write(root, "sys/fs/cgroup/pod/cpu.max", "150000 100000\n")
    write(root, "sys/fs/cgroup/pod/container/memory.max", f"{6 * GIB}\n")
    write(root, "sys/fs/cgroup/pod/memory.max", "max\n")
    facts = read_machine(root)
    assert facts.cpu_quota == 1.5
    assert facts.cores == 1
    assert facts.memory_limit_bytes == 6 * GIB


def test_cgroup_v2_whose_path_is_the_host_s(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/system.slice/docker-abc\n")
    write(root, "sys/fs/cgroup/memory.max", f"{2 * GIB}\n")
    assert read_machine(root).memory_limit_bytes == 2 * GIB


def test_cgroup_v1(root: Path) -> None:
    write(root, "proc/self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/job\n3:memory:/job\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
    write(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{3 * GIB}\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    facts = read_machine(root)
    assert facts.cpu_quota == 3.0
    assert facts.memory_limit_bytes == 3 * GIB


def test_cgroup_v1_without_a_quota(root: Path) -> None:
    write(root, "proc/self/cgroup", "4:cpu:/\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert read_machine(root).cpu_quota == math.inf


def test_gpus_by_name_or_by_device_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    write(root, "dev/nvidia0", "")
    write(root, "dev/nvidiactl", "")
    assert read_machine(root).gpus == ("NVIDIA GPU",)
    write(root, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA X\nIRQ: 1\n")
    assert read_machine(root).gpus == ("NVIDIA X",)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        ("", ()),
        ("-1", ()),
        ("1", ("NVIDIA Y",)),
        ("1, 0", ("NVIDIA Y", "NVIDIA X")),
        ("0,7,1", ("NVIDIA X",)),
        ("GPU-8932f937-d72c", ("NVIDIA GPU",)),
    ],
)
def test_gpus_that_cuda_may_not_use_are_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, visible: str, gpus: tuple[str, ...]
) -> None:
    for slot, name in (("01", "X"), ("02", "Y")):
        path = f"proc/driver/nvidia/gpus/0000:{slot}:00.0/information"
        write(root, path, f"Model: \t NVIDIA {name}\n")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert read_machine(root).gpus == ("NVIDIA X", "NVIDIA Y")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert read_machine(root).gpus == gpus


@pytest.mark.parametrize(
    ("cpus", "quota", "cores"), [(2, math.inf, 2), (8, 3.7, 3), (4, 0.5, 1), (2, 16.0, 2)]
)
def test_cores(root: Path, cpus: int, quota: float, cores: int) -> None:
    facts: MachineFacts = replace(read_machine(root), cpus=tuple(range(cpus)), cpu_quota=quota)
    assert facts.cores == cores


def test_this_machine_can_be_read() -> None:
    facts = read_machine()
    assert facts.cores >= 1
    assert 0 < facts.memory_limit_bytes <= facts.memory_total_bytes


def test_memory_left_is_what_the_tightest_group_may_still_take(root: Path) -> None:
    assert memory_left(root) == 1 << 60  # an old kernel says nothing
    write(root, "proc/meminfo", f"MemTotal: {32 * MIB} kB\nMemAvailable: {8 * MIB} kB\n")
    assert memory_left(root) == 8 * GIB
    write(root, "proc/self/cgroup", "0::/pod/container\n")
    for folder, limit in (("pod", "max"), ("pod/container", str(6 * GIB))):
        write(root, f"sys/fs/cgroup/{folder}/memory.max", f"{limit}\n")
        write(root, f"sys/fs/cgroup/{folder}/memory.current", f"{5 * GIB}\n")
        write(root, f"sys/fs/cgroup/{folder}/memory.stat", f"anon 1\ninactive_file {2 * GIB}\n")
    assert memory_left(root) == 3 * GIB  # what may be dropped is not taken
    stat = f"inactive_file 1\ntotal_inactive_file {GIB}\n"  # as an old kernel has it
    write(root, "sys/fs/cgroup/pod/container/memory.stat", stat)
    assert memory_left(root) == 2 * GIB
    write(root, "sys/fs/cgroup/pod/container/memory.current", f"{9 * GIB}\n")
    assert memory_left(root) == 0
