"""What engines cost on a virtual machine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Self

from benchmarks.coscheduling.search_calls import SearchCalls
from heddle.engines.llm.scheduler import SchedulerLimits

PAGE_TOKENS: Final = 16


@dataclass(frozen=True, slots=True)
class Machine:
    """Costs of the engines of a server, all in seconds for one unit of a feature.

    Args:
        llm_s: of the LLM's steps; `floor_s` is the least that one takes, beside `call`.
        embedding_s: of embedding.
        vector_s: of searching; a list's vectors are part of `lists`, and of `ridden`, a list that
            a further query shares.
        nlist: inverted lists; searches scan `nprobe_default` where a request doesn't say.
        llm: the LLM's seats, prompt tokens a step and pages.
        latency_s: how long a message between runtime and lane takes [s].
        router_s: what a cycle of the runtime costs, before the next one can begin [s].
        shares_lists: whether queries share the scan of a list.
        shares_core: whether embedding and search have one core between them.
        fifo_calls: how a vector engine takes queries that serves calls as they come.
    """

    llm_s: Mapping[str, float]
    embedding_s: Mapping[str, float]
    vector_s: Mapping[str, float]
    nlist: int
    nprobe_default: int
    llm: SchedulerLimits
    floor_s: float = 0.0
    latency_s: float = 3e-4
    router_s: float = 0.0
    shares_lists: bool = False
    shares_core: bool = True
    fifo_calls: SearchCalls = SearchCalls.SUBSTAGES

    def with_llm(self, factor: float) -> Self:
        """Return the machine whose LLM takes `factor` times as long."""
        floor_s = factor * self.floor_s
        return replace(self, llm_s=_scaled(self.llm_s, factor), floor_s=floor_s)

    def with_embedding(self, factor: float) -> Self:
        """Return the machine whose embedder takes `factor` times as long."""
        return replace(self, embedding_s=_scaled(self.embedding_s, factor))

    def with_lists(self, factor: float) -> Self:
        """Return the machine whose lists take `factor` times as long."""
        scaled = {
            name: factor * seconds if name in ("lists", "ridden") else seconds
            for name, seconds in self.vector_s.items()
        }
        return replace(self, vector_s=MappingProxyType(scaled))


def _scaled(costs_s: Mapping[str, float], factor: float) -> Mapping[str, float]:
    return MappingProxyType({name: factor * value for name, value in costs_s.items()})


def llm_limits(seats: int, step_tokens: int, kv_tokens: int) -> SchedulerLimits:
    """Return the limits of an LLM engine on a virtual machine."""
    return SchedulerLimits(
        max_num_seqs=seats,
        max_num_batched_tokens=step_tokens,
        page_size=PAGE_TOKENS,
        page_count=kv_tokens // PAGE_TOKENS,
        context_tokens_max=8192,
    )


# One H100, a model of 8 billion parameters in 16 bits: by roofline (docs/development/simulator.md),
# not measured. 7 ms to read the weights, 33 us a token, 50 ns a token of context.
GPU: Final = Machine(
    llm_s=MappingProxyType(
        {"call": 1e-3, "decode_tokens": 33e-6, "prefill_tokens": 33e-6, "context_tokens": 5e-8}
    ),
    embedding_s=MappingProxyType({"call": 3e-3, "tokens": 2e-5, "texts": 5e-5}),
    vector_s=MappingProxyType({"call": 1e-4, "lists": 1.95e-4, "scans": 1e-5, "rows": 1e-4}),
    nlist=2048,
    nprobe_default=256,
    llm=llm_limits(256, 256, 460_000),
    floor_s=7e-3,
    shares_core=False,
)
