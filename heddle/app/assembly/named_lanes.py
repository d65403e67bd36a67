"""Whether the machine has what the user's embedding lanes name."""

from collections.abc import Sequence
from itertools import chain

from heddle.core.errors import ConfigError
from heddle.engines.embedding.wanted_lanes import WantedLane
from heddle.hosts.devices import Device, DeviceKind
from heddle.hosts.machine import MachineFacts


def check_named_lanes(
    wanted: Sequence[WantedLane], devices: Sequence[Device], machine: MachineFacts
) -> None:
    """Refuse lanes that can't be had here, or that would hold each other up.

    Args:
        wanted: the user's lanes; no core or device is named twice.
        devices: what the detector found.
        machine: what this process may use.

    Raises:
        ConfigError: the message names the lane and the fix.
    """
    nodes = [device for device in devices if device.kind is DeviceKind.CPU]
    for lane in wanted:
        if lane.is_cpu:
            _check_cores(lane, machine)
            _check_node(lane, nodes)
        else:
            _check_device(lane, devices)
    named = len(list(chain.from_iterable(lane.cores for lane in wanted)))
    if named > machine.cores:
        raise ConfigError(
            f"embedding_lanes names {named} cores, and the cgroup's quota grants the time of "
            f"{machine.cores}: name fewer, or raise the quota"
        )
    if len(wanted) > machine.cores:
        raise ConfigError(
            f"embedding_lanes names {len(wanted)} lanes, and this process may use {machine.cores} "
            "cores: each lane needs a thread, so name at most as many"
        )


def _check_cores(lane: WantedLane, machine: MachineFacts) -> None:
    unknown = sorted(set(lane.cores).difference(machine.cpus))
    if unknown:
        raise ConfigError(
            f"embedding_lanes names core {unknown[0]}, and this process may use the cores "
            f"{ranges(machine.cpus)}"
        )


def _check_node(lane: WantedLane, nodes: Sequence[Device]) -> None:
    """Refuse cores of two NUMA nodes: each half would read the other's memory."""
    parts = [tuple(sorted(set(lane.cores).intersection(node.cpus))) for node in nodes]
    parts = [part for part in parts if part]
    if len(parts) > 1:
        apart = ",".join(f"cpu:{ranges(part)}" for part in parts)
        raise ConfigError(
            f"embedding_lanes: cpu:{ranges(lane.cores)} lies on {len(parts)} NUMA nodes; give each "
            f"its own lane: {apart}"
        )


def _check_device(lane: WantedLane, devices: Sequence[Device]) -> None:
    there = [device.torch_name for device in devices if device.kind is not DeviceKind.CPU]
    if lane.device not in there:
        found = f"there are {', '.join(there)}" if there else "there is no accelerator"
        raise ConfigError(f"embedding_lanes names {lane.device}, and {found}")


def ranges(cores: Sequence[int]) -> str:
    """Return cores as a lane writes them, such as 0-3+8."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return "+".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
