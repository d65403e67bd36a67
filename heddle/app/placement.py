"""The placement plan: which cores, threads and bytes each lane gets. (DESIGN §1)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from heddle.core.errors import ConfigError
from heddle.hosts.machine import MachineFacts

MEMORY_SHARE: Final = 0.8  # of the cgroup's limit; the rest is the system's and the page cache's
PROCESS_BYTES: Final = 400 << 20  # an interpreter with its numeric libraries
KV_BYTES_MAX: Final = 1 << 30
KV_BYTES_MIN: Final = 16 << 20
WAITING_BYTES_MAX: Final = 256 << 20  # of texts that wait for embedding, on all lanes together
WAITING_BYTES_MIN: Final = 16 << 20
WAITING_TOKEN_BYTES: Final = 64  # a text here and in its lane, and a token id as Python keeps it
LLM_HOST_CORES: Final = 2  # of an LLM on an accelerator: one steps it, one loads chunk KV


@dataclass(frozen=True, slots=True)
class Demand:
    """What has to fit: weights as they lie in memory, the index, and lanes. Sizes in bytes.

    `packed_bytes` is a second copy of the LLM's weights, for decoding, which may be left out.
    `accelerators` have an embedding lane each; with `spills` a CPU lane helps them. `shards` are
    the lanes of the index.
    """

    llm_bytes: int
    embedder_bytes: int
    index_bytes: int
    packed_bytes: int = 0
    llm_on_cpu: bool = True
    accelerators: int = 0
    spills: bool = False
    shards: int = 1

    @property
    def embedders(self) -> int:
        """Copies of the embedder: one in each of its lanes, or one in the retrieval lane."""
        return max(1, self.accelerators + self.spills)

    @property
    def processes(self) -> int:
        """Processes of a server: its own, one for each lane."""
        return 1 + self.shards + (self.llm_bytes > 0) + self.accelerators + self.spills


class CoreShares(NamedTuple):
    """The cores of each lane. `is_lent`: embedding may use the LLM's, while that has no work."""

    retrieval: tuple[int, ...]
    llm: tuple[int, ...]
    embedding: tuple[int, ...] = ()
    is_lent: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Cores and bytes of a server. The runtime shares the retrieval lane's cores.

    `embedding_cpus` are those of a CPU lane beside accelerators; where they are lent, they are
    the LLM's. A lane on an accelerator takes one thread, on any core.

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
    embedding_cpus: tuple[int, ...] = ()
    is_lent: bool = False
    accelerators: int = 0
    waiting_bytes: int = WAITING_BYTES_MIN

    @property
    def waiting_tokens(self) -> int:
        """Padded tokens that the memory for waiting texts holds."""
        return self.waiting_bytes // WAITING_TOKEN_BYTES

    @property
    def threads(self) -> Mapping[str, int]:
        """The numeric threads of each lane that may run at once."""
        return {
            "retrieval lane": len(self.retrieval_cpus),
            "llm lane": len(self.llm_cpus) if self.kv_bytes else 0,
            "embedding on accelerators": self.accelerators,
            "embedding on the CPU": 0 if self.is_lent else len(self.embedding_cpus),
        }

    def retrieval_threads(self, shards: int) -> int:
        """Return the threads of each of so many lanes that share the retrieval cores."""
        return max(1, len(self.retrieval_cpus) // shards)

    def lines(self) -> tuple[str, ...]:
        """Return the plan as `heddle doctor` prints it."""
        shared = "vector, tools" if self.accelerators else "embedding, vector, tools"
        lines = [
            f"runtime, {shared}: {self._cores(self.retrieval_cpus)}",
            f"llm: {self._cores(self.llm_cpus)}, {_mib(self.kv_bytes)} of KV pages"
            + (", weights packed for decoding" if self.packs_weights else "")
            if self.kv_bytes
            else "llm: none",
            f"memory: {_mib(self.total_bytes)} planned of {_mib(self.limit_bytes)} allowed "
            f"({MEMORY_SHARE:.0%} of the limit), {_mib(self.waiting_bytes)} of it for texts that "
            f"wait for embedding, {self.waiting_tokens:,} tokens",
        ]
        if self.is_lent:
            lines.insert(2, "embedding-cpu: on the llm's cores, only while that has no work")
        return tuple(lines)

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
    processes = demand.processes * PROCESS_BYTES
    embedders = demand.embedders * demand.embedder_bytes
    fixed = processes + demand.llm_bytes + embedders + demand.index_bytes + WAITING_BYTES_MIN
    wanted = KV_BYTES_MIN if kv_bytes is None else kv_bytes
    if not demand.llm_bytes:
        wanted = kv = 0
    else:
        spare = max(KV_BYTES_MIN, (limit - fixed) // 2)
        kv = min(KV_BYTES_MAX, spare) if kv_bytes is None else kv_bytes
    if fixed + wanted > limit:
        raise ConfigError(
            f"this needs {_mib(fixed + wanted)} (model {_mib(demand.llm_bytes)}, embedder "
            f"{_mib(embedders)}, index {_mib(demand.index_bytes)}, KV "
            f"{_mib(wanted)}, processes {_mib(processes)}) and may use {_mib(limit)}: "
            "take a smaller model or index, lower kv_bytes, or raise the memory limit"
        )
    shares = share_cores(machine.cpus[: machine.cores], demand)
    packs_weights = 0 < demand.packed_bytes <= limit - fixed - kv
    total = fixed + kv + (demand.packed_bytes if packs_weights else 0)
    waiting = min(WAITING_BYTES_MAX, WAITING_BYTES_MIN + limit - total)
    return Placement(
        shares.retrieval,
        shares.llm,
        kv,
        total + waiting - WAITING_BYTES_MIN,
        limit,
        is_pinned=machine.cores == len(machine.cpus),
        packs_weights=packs_weights,
        embedding_cpus=shares.embedding,
        is_lent=shares.is_lent,
        accelerators=demand.accelerators,
        waiting_bytes=waiting,
    )


def share_cores(cpus: Sequence[int], demand: Demand) -> CoreShares:
    """Return the cores of each lane: together no more threads than cores, or one thread a lane.

    Retrieval gets a quarter, or what nobody else wants. An LLM on the CPU gets the rest, and
    lends it to embedding: a share of its own would slow every token for a rare spill. An LLM on
    an accelerator needs few, and the rest is embedding's.
    """
    cpus, has_llm = tuple(cpus), demand.llm_bytes > 0
    # A thread drives each accelerator, on whatever core.
    free = cpus[: max(1 + has_llm, len(cpus) - demand.accelerators)]
    if has_llm and len(free) < 2:
        return CoreShares(free, free)
    if not has_llm and not demand.spills:
        return CoreShares(free, ())
    quarter = max(1, len(free) // 4)
    retrieval, rest = free[:quarter], free[quarter:]
    if not demand.spills:
        return CoreShares(retrieval, rest)
    if has_llm and demand.llm_on_cpu:
        return CoreShares(retrieval, rest, rest, is_lent=True)
    hosts = LLM_HOST_CORES if has_llm else 0
    return CoreShares(retrieval, rest[:hosts], rest[hosts:])


def _mib(count: int) -> str:
    return f"{count / (1 << 20):,.0f} MiB"
