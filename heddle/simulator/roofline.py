"""What a GPU can do at best: prefill, decode and vector search by FLOP and byte. (Trinity §2)

Figures are of data sheets, derated by what kernels reach; nothing here was measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SATURATED = 0.95  # of the plateau, from which a batch size counts as saturating


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; `reached` is the share of a peak that kernels come to, `usable` of the memory what
    activations and the allocator leave."""

    flops_per_s: float = 989e12
    bytes_per_s: float = 4.8e12
    memory_bytes: float = 141e9
    reached: float = 0.6
    launch_s: float = 30e-6
    usable: float = 0.9

    def seconds(self, flops: float, moved_bytes: float) -> float:
        """Return how long work takes, by whichever roof it hits [s]."""
        at_best_s = max(flops / self.flops_per_s, moved_bytes / self.bytes_per_s)
        return at_best_s / self.reached


@dataclass(frozen=True, slots=True)
class LlmShape:
    """A mixture-of-experts model of DeepSeek-V3's size, weights and activations in 8 bits.

    `kv_bytes` are for one token in all layers; `experts_used` for one token in a layer.
    """

    parameters: float = 671e9
    parameters_active: float = 37e9
    layers: int = 61
    hidden: int = 7168
    experts: int = 256
    experts_used: int = 8
    kv_bytes: float = 70e3


@dataclass(frozen=True, slots=True)
class SearchShape:
    """A graph search over one replica of the index, and the size of its answer.

    `extends` of `degree` neighbours each, one step a time for all slots together.
    """

    vectors: float = 100e6
    dims: int = 384
    degree: int = 32
    extends: int = 65
    slots: int = 64
    answer_bytes: float = 8e3

    @property
    def index_bytes(self) -> float:
        """Of a replica: float16 vectors and the edges."""
        return self.vectors * (2 * self.dims + 4 * self.degree)


H200: Final = Gpu()
LARGE_MOE: Final = LlmShape()
LARGE_INDEX: Final = SearchShape()


def prefill_s(gpu: Gpu, llm: LlmShape, tokens: int, gpus: int) -> float:
    """Return how long a prompt takes on some GPUs, without what they say to each other [s]."""
    return gpu.seconds(2 * llm.parameters_active * tokens, llm.parameters) / gpus


def decode_step_s(gpu: Gpu, llm: LlmShape, batch: int, context: int, gpus: int) -> float:
    """Return how long one token for each sequence takes, without communication [s].

    The more tokens, the more of the experts are read.
    """
    missed = (1 - llm.experts_used / llm.experts) ** batch
    weights = llm.parameters_active + (llm.parameters - llm.parameters_active) * (1 - missed)
    kv = batch * context * llm.kv_bytes
    return gpu.seconds(2 * llm.parameters_active * batch, weights + kv) / gpus


def kv_tokens_max(gpu: Gpu, llm: LlmShape, gpus: int, share: float = 1.0) -> int:
    """Return of how many tokens some GPUs hold the KV beside a share of the weights; 0 = none."""
    left_bytes = gpus * gpu.usable * gpu.memory_bytes - share * llm.parameters
    return max(0, int(left_bytes / llm.kv_bytes))


def extend_s(gpu: Gpu, search: SearchShape, batch: int) -> float:
    """Return how long one extend of `batch` searches takes, launch included [s]."""
    compared = batch * search.degree
    flops, moved_bytes = 3 * compared * search.dims, 2 * compared * search.dims
    return gpu.launch_s + gpu.seconds(flops, moved_bytes)


def utilisation(gpu: Gpu, flops: float, seconds: float) -> float:
    """Return the share of a GPU's peak FLOP/s that work reaches, Trinity's U."""
    return flops / seconds / gpu.flops_per_s


def saturation(use: Callable[[int], float], batch_max: int = 1 << 17) -> int:
    """Return the smallest power of two that comes near the plateau.

    Args:
        use: batch size to utilisation; only ever grows.
        batch_max: where the plateau is read.
    """
    plateau = use(batch_max)
    batch = 1
    while batch < batch_max and use(batch) < SATURATED * plateau:
        batch *= 2
    return batch
