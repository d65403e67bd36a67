"""The placement plan: which cores, threads and bytes each lane gets. (DESIGN §1)"""

from dataclasses import dataclass
from typing import Final

from heddle.core.errors import ConfigError
from heddle.hosts.machine import MachineFacts

MEMORY_SHARE: Final = 0.8  # of the cgroup's limit; the rest is the system's and the page cache's
PROCESS_BYTES: Final = 400 << 20  # an interpreter with its numeric libraries
KV_BYTES_MAX: Final = 1 << 30
KV_BYTES_MIN: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Demand:
    """What has to fit: weights as they lie in memory, and the index. All in bytes.

    `packed_bytes` is a second copy of the LLM's weights, for decoding, which may be left out.
    """

    llm_bytes: int
    embedder_bytes: int
    index_bytes: int
    packed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Cores and bytes of a server. The runtime shares the retrieval lane's cores.

    Lanes are pinned only where this process may use its cores whole: under a quota of fewer
    cores than it sees, every server of the host would pin itself to the same first ones.
    """

    retrieval_cpus: tuple[int, ...]
    llm_cpus: tuple[int, ...]
    kv_bytes: int
    total_bytes: int
    limit_bytes: int
    is_pinned: bool = True
    packs_weights: bool = False

    def lines(self) -> tuple[str, ...]:
        """Return the plan as `heddle doctor` prints it."""
        return (
            f"runtime, embedding, vector, tools: {self._cores(self.retrieval_cpus)}",
            f"llm: {self._cores(self.llm_cpus)}, {_mib(self.kv_bytes)} of KV pages"
            + (", weights packed for decoding" if self.packs_weights else "")
            if self.kv_bytes
            else "llm: none",
            f"memory: {_mib(self.total_bytes)} planned of {_mib(self.limit_bytes)} allowed "
            f"({MEMORY_SHARE:.0%} of the limit)",
        )

    def _cores(self, cpus: tuple[int, ...]) -> str:
        if not self.is_pinned:
            return f"{len(cpus)} threads, any core"
        return f"cores {', '.join(map(str, cpus))}" if cpus else "any core"


def plan_placement(machine: MachineFacts, demand: Demand, kv_bytes: int | None = None) -> Placement:
    """Return a plan that fits the machine.

    Args:
        machine: what this process may use.
        demand: what has to be loaded.
        kv_bytes: KV pages wanted; None takes what is left, at most 1 GiB.

    Raises:
        ConfigError: it doesn't fit; the message says what takes how much.
    """
    limit = int(machine.memory_limit_bytes * MEMORY_SHARE)
    lanes = 3 if demand.llm_bytes else 2
    fixed = lanes * PROCESS_BYTES + demand.llm_bytes + demand.embedder_bytes + demand.index_bytes
    wanted = KV_BYTES_MIN if kv_bytes is None else kv_bytes
    if not demand.llm_bytes:
        wanted = kv = 0
    else:
        spare = max(KV_BYTES_MIN, (limit - fixed) // 2)
        kv = min(KV_BYTES_MAX, spare) if kv_bytes is None else kv_bytes
    if fixed + wanted > limit:
        raise ConfigError(
            f"this needs {_mib(fixed + wanted)} (model {_mib(demand.llm_bytes)}, embedder "
            f"{_mib(demand.embedder_bytes)}, index {_mib(demand.index_bytes)}, KV "
            f"{_mib(wanted)}, processes {_mib(lanes * PROCESS_BYTES)}) and may use {_mib(limit)}: "
            "take a smaller model or index, lower kv_bytes, or raise the memory limit"
        )
    cpus = machine.cpus[: machine.cores]
    retrieval, llm = _split(cpus) if demand.llm_bytes else (cpus, ())
    is_pinned = machine.cores == len(machine.cpus)
    packs_weights = 0 < demand.packed_bytes <= limit - fixed - kv
    total = fixed + kv + (demand.packed_bytes if packs_weights else 0)
    return Placement(retrieval, llm, kv, total, limit, is_pinned, packs_weights)


def _split(cpus: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A quarter of the cores, at least one, for retrieval; the rest for the LLM."""
    if len(cpus) < 2:
        return cpus, cpus
    share = max(1, len(cpus) // 4)
    return cpus[:share], cpus[share:]


def _mib(count: int) -> str:
    return f"{count / (1 << 20):,.0f} MiB"
