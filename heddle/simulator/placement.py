"""Where vector search runs beside prefill and decode, and what that costs the LLM. (Trinity §3.1)

What a displaced GPU costs is the point: without it the coupled placement, with the shortest way
to its index, would always win.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from heddle.core.errors import ConfigError
from heddle.simulator.roofline import (
    H200,
    LARGE_INDEX,
    LARGE_MOE,
    Gpu,
    LlmShape,
    SearchShape,
    decode_step_s,
    kv_tokens_max,
    prefill_s,
)

NODE_GPUS = 8
REDUCES_PER_LAYER = 2  # after attention and after the experts
BYTES_PER_VALUE = 1  # activations in 8 bits, as dispatched


class Placement(Enum):
    """COUPLED: one GPU of every node. WITH_PREFILL: one of every prefill node, decode has a pool.
    POOL: all vector GPUs are a pool of their own."""

    COUPLED = "coupled"
    WITH_PREFILL = "with_prefill"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class Links:
    """NVLink within a node, RDMA between nodes: bytes a second of one GPU, and latency [s]."""

    node_bytes_per_s: float = 450e9
    node_latency_s: float = 2e-6
    network_bytes_per_s: float = 50e9
    network_latency_s: float = 12e-6

    def transfer_s(self, size: float, *, in_node: bool) -> float:
        """Return how long one message takes [s]."""
        if in_node:
            return self.node_latency_s + size / self.node_bytes_per_s
        return self.network_latency_s + size / self.network_bytes_per_s


NVLINK_AND_RDMA: Final = Links()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes of eight GPUs, and GPUs that stand beside them.

    Args:
        prefill_nodes: each computes one prompt at a time, tensor-parallel.
        decode_nodes: each decodes a batch, its GPUs sharing the experts.
        pool_gpus: GPUs of the vector pool. COUPLED has none: beside its nodes stand the GPUs
            that host what each decode node's index displaced.

    Raises:
        ConfigError: there are none of something, or the index or the model doesn't fit.
    """

    placement: Placement
    prefill_nodes: int = 2
    decode_nodes: int = 4
    pool_gpus: int = 4
    gpu: Gpu = H200
    llm: LlmShape = LARGE_MOE
    search: SearchShape = LARGE_INDEX
    links: Links = NVLINK_AND_RDMA

    def __post_init__(self) -> None:
        if min(self.prefill_nodes, self.decode_nodes, self.pool_gpus) < 1:
            raise ConfigError("a cluster needs prefill nodes, decode nodes and pool GPUs")
        if self.search.index_bytes > self.gpu.memory_bytes:
            raise ConfigError(
                f"a replica of the index has {self.search.index_bytes / 1e9:.0f} GB, a GPU "
                f"{self.gpu.memory_bytes / 1e9:.0f}; model fewer vectors"
            )
        if not kv_tokens_max(self.gpu, self.llm, self._compute_gpus):
            raise ConfigError(
                f"the model has {self.llm.parameters / 1e9:.0f} GB of weights, a node's "
                f"{self._compute_gpus} GPUs {self._compute_gpus * self.gpu.memory_bytes / 1e9:.0f}"
            )

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        is_coupled = self.placement is Placement.COUPLED
        beside = self.decode_nodes if is_coupled else self.pool_gpus
        return NODE_GPUS * (self.prefill_nodes + self.decode_nodes) + beside

    @property
    def index_replicas(self) -> int:
        """GPUs that search; each holds the whole index, and all have to be kept up to date."""
        match self.placement:
            case Placement.COUPLED:
                return self.prefill_nodes + self.decode_nodes
            case Placement.WITH_PREFILL:
                return self.prefill_nodes + self.pool_gpus
            case Placement.POOL:
                return self.pool_gpus

    @property
    def _compute_gpus(self) -> int:
        """Of a prefill node: a displaced GPU is missing from it."""
        return NODE_GPUS - (self.placement is not Placement.POOL)

    def batch_max(self, context: int) -> int:
        """Return how many sequences of that many tokens a decode node's memory holds.

        The weights of a displaced GPU's experts stand on another node, and its memory is missing.
        """
        gpus = NODE_GPUS - (self.placement is Placement.COUPLED)
        return kv_tokens_max(self.gpu, self.llm, gpus, gpus / NODE_GPUS) // context

    def prompt_s(self, tokens: int) -> float:
        """Return how long a prompt takes on a prefill node, all-reduces included [s].

        What a displaced GPU leaves shares the work, still a ring.
        """
        gpus = self._compute_gpus
        size = tokens * self.llm.hidden * 2  # all-reduces are in 16 bits
        ring_s = 2 * (gpus - 1) * self.links.transfer_s(size / gpus, in_node=True)
        reduces_s = REDUCES_PER_LAYER * self.llm.layers * ring_s
        return prefill_s(self.gpu, self.llm, tokens, gpus) + reduces_s

    def step_s(self, batch: int, context: int) -> float:
        """Return how long a decode step of a node takes, expert dispatch included [s].

        Dispatch and combine each wait for their slowest part. The experts of a displaced GPU
        stand on another node, so that part of the traffic leaves this one in every layer.
        """
        size = batch * self.llm.experts_used * self.llm.hidden * BYTES_PER_VALUE / NODE_GPUS
        dispatch_s = self.links.transfer_s(size, in_node=True)
        if self.placement is Placement.COUPLED:
            # All of the node's tokens for those experts go through one other GPU's link.
            dispatch_s = max(dispatch_s, self.links.transfer_s(size, in_node=False))
        compute_s = decode_step_s(self.gpu, self.llm, batch, context, NODE_GPUS)
        return compute_s + 2 * self.llm.layers * dispatch_s

    def search_trip_s(self, *, for_prefill: bool) -> float:
        """Return how long question and answer of a search are under way [s]."""
        coupled = self.placement is Placement.COUPLED
        in_node = coupled or (for_prefill and self.placement is Placement.WITH_PREFILL)
        question_s = self.links.transfer_s(4.0 * self.search.dims, in_node=in_node)
        return question_s + self.links.transfer_s(self.search.answer_bytes, in_node=in_node)
