"""What a GPU's memory is for: weights, KV pages, hot clusters. (ADR 53)"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from heddle.app.assembly.demand import KV_BYTES_MIN
from heddle.app.assembly.device_memory import DeviceMemory
from heddle.core.errors import ConfigError
from heddle.core.printing.sizes import mib
from heddle.costs.memory_split import MemorySplit
from heddle.engines.vector.ivf.hot.setting import AUTO_SHARE

DEVICE_SHARE: Final = 0.9  # of what is free; the rest is for the tensors of steps
CONTEXT_BYTES: Final = 512 << 20  # CUDA's own, of each process: its context, kernels, workspaces
HOT_SHARE_MIN: Final = 0.01  # fewer hot clusters than this aren't worth their scans


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """What has to lie on a GPU beside KV pages. Sizes in bytes.

    Args:
        lanes: LLM lanes, each with a copy of the weights and KV pages of its own.
        llm_bytes: weights of one LLM lane.
        embedder_bytes: weights of what embeds there.
        processes: that use it.
        vector_bytes: all vectors of the index, as hot clusters hold them, of all lanes that search.
        hot_share: the share of the vectors that the user wants there; None = the plan decides.
        graph_bytes: graphs that are searched there, and another one while it is exchanged.
    """

    lanes: int
    llm_bytes: int
    embedder_bytes: int = 0
    processes: int = 1
    vector_bytes: int = 0
    hot_share: float | None = None
    graph_bytes: int = 0

    @property
    def fixed_bytes(self) -> int:
        """What is there in any case."""
        own = self.processes * CONTEXT_BYTES + self.lanes * self.llm_bytes + self.embedder_bytes
        return own + self.graph_bytes + int((self.hot_share or 0.0) * self.vector_bytes)


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """How the memory of one GPU is shared out.

    Args:
        name: the GPU, as torch names it.
        memory: how large it is, and how much of it is free.
        demand: what has to lie there.
        kv_bytes: KV pages of each LLM lane.
        hot_share: the share of the vectors that its hot clusters hold; 0 = it holds none.
        split: why there are `kv_bytes`, where a memory profile says so.
    """

    name: str
    memory: DeviceMemory
    demand: DeviceDemand
    kv_bytes: int
    hot_share: float
    split: MemorySplit | None = None

    @property
    def limit_bytes(self) -> int:
        """What may be planned."""
        return int(self.memory.free_bytes * DEVICE_SHARE)

    @property
    def hot_bytes(self) -> int:
        """What hot clusters take."""
        return int(self.hot_share * self.demand.vector_bytes)

    @property
    def total_bytes(self) -> int:
        """What is planned."""
        demand = self.demand
        own = demand.processes * CONTEXT_BYTES + demand.lanes * (demand.llm_bytes + self.kv_bytes)
        return own + demand.embedder_bytes + demand.graph_bytes + self.hot_bytes

    def line(self) -> str:
        """Return the plan as `heddle doctor` prints it."""
        demand = self.demand
        weights = demand.lanes * demand.llm_bytes + demand.embedder_bytes
        hot = f", hot clusters {mib(self.hot_bytes)}" if self.hot_share else ""
        hot += f", the graph {mib(demand.graph_bytes)}" if demand.graph_bytes else ""
        return (
            f"{self.name}: {mib(self.total_bytes)} planned of {mib(self.limit_bytes)} allowed "
            f"({DEVICE_SHARE:.0%} of the {mib(self.memory.free_bytes)} that are free): "
            f"weights {mib(weights)}, KV pages {mib(demand.lanes * self.kv_bytes)}{hot}"
        )


def plan_device(
    name: str,
    memory: DeviceMemory,
    demand: DeviceDemand,
    kv_bytes: int | None = None,
    split_memory: Callable[[int], MemorySplit] | None = None,
) -> DevicePlan:
    """Share out a GPU's memory between KV pages and hot clusters.

    Where a memory profile splits the memory, KV pages get that size, and hot clusters the rest,
    up to all vectors. Without one, hot clusters get their usual share, at most half of what is
    left, and KV pages the rest.

    Args:
        name: the GPU, as torch names it.
        memory: how large it is, and how much of it is free.
        demand: what has to lie there; it has at least one LLM lane.
        kv_bytes: KV pages wanted for each LLM lane; None = the plan decides.
        split_memory: splits the bytes that are left for each LLM lane; None, or with `kv_bytes`,
            nothing does.

    Raises:
        ConfigError: it doesn't fit; the message says what takes how much.
    Source: HedraRAG §4.4, eq. 2.
    """
    limit = int(memory.free_bytes * DEVICE_SHARE)
    left, lanes = limit - demand.fixed_bytes, demand.lanes
    least = lanes * (KV_BYTES_MIN if kv_bytes is None else kv_bytes)
    if least > left:
        raise ConfigError(
            f"{name} would have to hold {mib(demand.fixed_bytes + least)} (weights "
            f"{mib(lanes * demand.llm_bytes)}, KV {mib(least)}, the rest for embedding, the "
            f"index and CUDA) and {mib(limit)} may be planned of {mib(memory.free_bytes)} that "
            "are free: take a smaller model or fewer LLM lanes, lower kv_cache_bytes or "
            "hot_clusters, set graph_device to cpu, or set device to cpu"
        )
    split, usual = None, int(AUTO_SHARE * demand.vector_bytes)
    if kv_bytes is not None:
        kv, hot = kv_bytes, min(usual, left - lanes * kv_bytes)
    elif split_memory is not None:
        split = split_memory(left // lanes)
        kv = split.kv_bytes
        hot = min(demand.vector_bytes, left - lanes * kv)
    else:
        hot = 0 if demand.hot_share is not None else min(usual, (left - least) // 2)
        kv = (left - hot) // lanes
    share = demand.hot_share
    if share is None:
        share = hot / demand.vector_bytes if demand.vector_bytes else 0.0
        share = share if share >= HOT_SHARE_MIN else 0.0
    return DevicePlan(name, memory, demand, kv, share, split)
