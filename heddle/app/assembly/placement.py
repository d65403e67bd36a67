"""The placement plan: cores, threads and bytes of each lane. (docs/architecture.md#lanes)"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from heddle.core.errors import ConfigError
from heddle.core.printing.sizes import mib
from heddle.costs.memory_split import MemorySplit
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names
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
    `readers_bytes` are the reading models'. Where there is an LLM, each of `llm_roles` is a lane
    with its own weights. `accelerators` have an embedding lane each; with `spills` a CPU lane helps
    them. The index has `shards` lanes with a part each, or `replicas` lanes with a copy each, which
    have copies of the embedder and the readers, too.
    """

    llm_bytes: int
    embedder_bytes: int
    index_bytes: int
    packed_bytes: int = 0
    llm_on_cpu: bool = True
    accelerators: int = 0
    spills: bool = False
    shards: int = 1
    replicas: int = 1
    llm_roles: tuple[LaneRole, ...] = (LaneRole.BOTH,)
    readers_bytes: int = 0

    @property
    def llm_lanes(self) -> int:
        """Lanes of the LLM."""
        return len(self.llm_roles) if self.llm_bytes else 0

    @property
    def embedders(self) -> int:
        """Copies of the embedder: one in each of its lanes, or in each replica of retrieval."""
        return self.accelerators + self.spills or self.replicas

    @property
    def retrieval_lanes(self) -> int:
        """Lanes that search."""
        return self.shards * self.replicas

    @property
    def processes(self) -> int:
        """Processes of a server: its own, one for each lane."""
        return 1 + self.retrieval_lanes + self.llm_lanes + self.accelerators + self.spills


class CoreShares(NamedTuple):
    """The cores of each kind of lane. `is_lent`: embedding may use the LLM's while that is idle."""

    retrieval: tuple[int, ...]
    llm: tuple[int, ...]
    embedding: tuple[int, ...] = ()
    is_lent: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Cores and bytes of a server. The runtime shares the retrieval lane's cores.

    The LLM's lanes, by `llm_roles`, divide `llm_cpus`; each has `kv_bytes`. `embedding_cpus` are
    those of a CPU lane beside accelerators; where they are lent, they are the LLM's. A lane on an
    accelerator takes one thread, on any core. `split` says why there are `kv_bytes`, where a memory
    profile does.

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
    llm_roles: tuple[LaneRole, ...] = (LaneRole.BOTH,)
    retrieval_lanes: int = 1
    split: MemorySplit | None = None

    @property
    def llm_lanes(self) -> Mapping[str, tuple[int, ...]]:
        """The cores of each LLM lane, by its name, as even as they divide."""
        names, cores = lane_names(self.llm_roles), len(self.llm_cpus)
        ends = [number * cores // len(names) for number in range(len(names) + 1)]
        parts = (self.llm_cpus[start:stop] for start, stop in pairwise(ends))
        return dict(zip(names, parts, strict=True))

    @property
    def waiting_tokens(self) -> int:
        """Padded tokens that the memory for waiting texts holds."""
        return self.waiting_bytes // WAITING_TOKEN_BYTES

    @property
    def threads(self) -> Mapping[str, int]:
        """The numeric threads of each lane that may run at once."""
        return {
            "retrieval lane": len(self.retrieval_cpus),
            **{
                f"{name} lane": len(cpus) if self.kv_bytes else 0
                for name, cpus in self.llm_lanes.items()
            },
            "embedding on accelerators": self.accelerators,
            "embedding on the CPU": 0 if self.is_lent else len(self.embedding_cpus),
        }

    @property
    def retrieval_threads(self) -> int:
        """The threads of each retrieval lane: they share the retrieval cores."""
        return max(1, len(self.retrieval_cpus) // self.retrieval_lanes)

    def lines(self) -> tuple[str, ...]:
        """Return the plan as `heddle doctor` prints it."""
        shared = "vector, tools" if self.accelerators else "embedding, vector, tools"
        lines = [
            f"runtime, {shared}: {self._cores(self.retrieval_cpus)}",
            *self._llm_lines(),
            f"memory: {mib(self.total_bytes)} planned of {mib(self.limit_bytes)} allowed "
            f"({MEMORY_SHARE:.0%} of the limit), {mib(self.waiting_bytes)} of it for texts that "
            f"wait for embedding, {self.waiting_tokens:,} tokens",
        ]
        if self.split is not None:
            lines.append(
                f"memory split: {mib(self.split.kv_bytes)} of KV pages for "
                f"{self.split.requests_per_s:.2f} requests/s of {self.split.mix.generations:g} "
                f"generations and {self.split.mix.searches:g} searches each, bound by "
                f"{self.split.bound.value}; "
                f"{mib(self.split.rest_bytes)} left for the index (HedraRAG eq. 2)"
            )
        if self.is_lent:
            lines.insert(-1, "embedding-cpu: on the llm's cores, only while that has no work")
        return tuple(lines)

    def _llm_lines(self) -> Iterator[str]:
        if not self.kv_bytes:
            yield "llm: none"
            return
        for (name, cpus), role in zip(self.llm_lanes.items(), self.llm_roles, strict=True):
            packs = self.packs_weights and role.decodes
            yield (
                f"{name}: {self._cores(cpus)}, {mib(self.kv_bytes)} of KV pages"
                + (", weights packed for decoding" if packs else "")
            )

    def _cores(self, cpus: tuple[int, ...]) -> str:
        if not self.is_pinned:
            return f"{len(cpus)} threads, any core"
        return f"cores {', '.join(map(str, cpus))}" if cpus else "any core"


def plan_placement(
    machine: MachineFacts,
    demand: Demand,
    kv_bytes: int | None = None,
    split_memory: Callable[[int], MemorySplit] | None = None,
) -> Placement:
    """Return a plan that fits the machine.

    Args:
        machine: what this process may use.
        demand: what has to be loaded.
        kv_bytes: KV pages wanted for each LLM lane; None takes what is left, at most 1 GiB each.
        split_memory: splits the bytes that are left for each LLM lane, where a memory profile says
            how; None, or with `kv_bytes`, nothing does.

    Raises:
        ConfigError: it doesn't fit; the message says what takes how much.
    """
    lanes, cores = demand.llm_lanes, machine.cpus[: machine.cores]
    if lanes > len(cores):
        raise ConfigError(
            f"llm_lanes or replicas names {lanes} lanes, and this process may use {len(cores)} "
            "cores: name at most as many lanes, or allow it more cores"
        )
    limit = int(machine.memory_limit_bytes * MEMORY_SHARE)
    processes = demand.processes * PROCESS_BYTES
    embedders = demand.embedders * demand.embedder_bytes + demand.replicas * demand.readers_bytes
    index = demand.replicas * demand.index_bytes
    models = lanes * demand.llm_bytes
    fixed = processes + models + embedders + index + WAITING_BYTES_MIN
    wanted = lanes * (KV_BYTES_MIN if kv_bytes is None else kv_bytes)
    kv, split = 0, None
    if lanes and kv_bytes is None and split_memory is not None:
        split = split_memory(max(KV_BYTES_MIN, (limit - fixed) // lanes))
        kv = split.kv_bytes
    elif lanes:
        spare = max(KV_BYTES_MIN, (limit - fixed) // (2 * lanes))
        kv = min(KV_BYTES_MAX, spare) if kv_bytes is None else kv_bytes
    if fixed + wanted > limit:
        raise ConfigError(
            f"this needs {mib(fixed + wanted)} (model {mib(models)}, embedder and readers "
            f"{mib(embedders)}, index {mib(index)}, KV "
            f"{mib(wanted)}, processes {mib(processes)}) and may use {mib(limit)}: "
            "take a smaller model or index, lower kv_bytes, or raise the memory limit"
        )
    shares = share_cores(cores, demand)
    packed = demand.packed_bytes * sum(role.decodes for role in demand.llm_roles)
    packs_weights = 0 < packed <= limit - fixed - lanes * kv
    total = fixed + lanes * kv + (packed if packs_weights else 0)
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
        llm_roles=demand.llm_roles,
        retrieval_lanes=demand.retrieval_lanes,
        split=split,
    )


def share_cores(cpus: Sequence[int], demand: Demand) -> CoreShares:
    """Return the cores of each lane: together no more threads than cores, or one thread a lane.

    Retrieval gets a quarter, or all where no other lane needs a core. An LLM on the CPU gets the
    rest and lends it to embedding: an embedding share would slow every token for a rare spill. An
    LLM on an accelerator needs few cores, and embedding gets the rest. Each LLM lane has a core.
    Where that leaves none for retrieval, retrieval shares the first.
    """
    cpus, lanes = tuple(cpus), demand.llm_lanes
    # A thread drives each accelerator, on any core.
    free = cpus[: max(1 + lanes, len(cpus) - demand.accelerators)]
    if lanes and len(free) <= lanes:
        return CoreShares(free[:1], free)
    if not lanes and not demand.spills:
        return CoreShares(free, ())
    quarter = max(1, min(len(free) // 4, len(free) - lanes))
    retrieval, rest = free[:quarter], free[quarter:]
    if not demand.spills:
        return CoreShares(retrieval, rest)
    if lanes and demand.llm_on_cpu:
        return CoreShares(retrieval, rest, rest, is_lent=True)
    hosts = LLM_HOST_CORES * lanes
    return CoreShares(retrieval, rest[:hosts], rest[hosts:])
