"""The placement plan: cores, threads and bytes of each lane. (docs/design/architecture.md#lanes)"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from heddle.app.assembly.core_shares import CoreShares, share_cores
from heddle.app.assembly.demand import KV_BYTES_MIN, Cores, Demand
from heddle.app.assembly.device_plan import DevicePlan
from heddle.core.errors import ConfigError
from heddle.core.printing.sizes import mib
from heddle.costs.memory_split import MemorySplit
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names
from heddle.hosts.machine import MachineFacts

MEMORY_SHARE: Final = 0.8  # of the cgroup's limit; the rest is the system's and the page cache's
PROCESS_BYTES: Final = 400 << 20  # an interpreter with its numeric libraries
KV_BYTES_MAX: Final = 1 << 30
WAITING_BYTES_MAX: Final = 256 << 20  # of texts that wait for embedding, on all lanes together
WAITING_BYTES_MIN: Final = 16 << 20
WAITING_TOKEN_BYTES: Final = 64  # a text here and in its lane, and a token id as Python keeps it


@dataclass(frozen=True, slots=True)
class Placement:
    """Cores and bytes of a server. The runtime shares the retrieval lane's cores.

    The LLM's lanes, by `llm_roles`, have `llm_cores`; each has `kv_bytes`. `embedding_cores` are
    those of each CPU lane that only embeds; where they are lent, they are the LLM's. A lane on an
    accelerator takes one thread, on any core. `split` says why there are `kv_bytes`, where a memory
    profile does. With a `device` they lie there, and are no part of `total_bytes`. `lends_to_llm`:
    the LLM computes on retrieval's cores, too, while that has nothing to do; `lends_to_scans`: and
    scans of lists on the LLM's (ADR 60).

    Lanes are pinned only where this process may use its cores whole: under a quota of fewer
    cores than it sees, every server of the host would pin itself to the same first ones.
    """

    retrieval_cpus: Cores
    llm_cores: tuple[Cores, ...]
    kv_bytes: int
    total_bytes: int
    limit_bytes: int
    is_pinned: bool = True
    packs_weights: bool = False
    embedding_cores: tuple[Cores, ...] = ()
    is_lent: bool = False
    accelerators: int = 0
    waiting_bytes: int = WAITING_BYTES_MIN
    llm_roles: tuple[LaneRole, ...] = (LaneRole.BOTH,)
    retrieval_lanes: int = 1
    split: MemorySplit | None = None
    device: DevicePlan | None = None
    lends_to_llm: bool = False
    lends_to_scans: bool = False

    @property
    def llm_cpus(self) -> Cores:
        """The cores of all LLM lanes."""
        return tuple(chain.from_iterable(self.llm_cores))

    @property
    def has_spare_core(self) -> bool:
        """Whether there are more cores than lanes, so that one is left to the runtime."""
        own = (self.retrieval_cpus, *self.llm_cores, *self.embedding_cores)
        lanes = self.retrieval_lanes + len(self.llm_cores) + len(self.embedding_cores)
        return len(set(chain.from_iterable(own))) > lanes

    @property
    def llm_lanes(self) -> Mapping[str, Cores]:
        """The cores of each LLM lane, by its name."""
        cores = self.llm_cores or ((),) * len(self.llm_roles)
        return dict(zip(lane_names(self.llm_roles), cores, strict=True))

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
            "embedding on the CPU": 0 if self.is_lent else sum(map(len, self.embedding_cores)),
        }

    @property
    def retrieval_threads(self) -> int:
        """The threads of each retrieval lane: they share the retrieval cores."""
        return max(1, len(self.retrieval_cpus) // self.retrieval_lanes)

    def lines(self, llm_elsewhere: str = "") -> tuple[str, ...]:
        """Return the plan as `heddle doctor` prints it.

        Args:
            llm_elsewhere: where the LLM is that this machine doesn't hold; "" = there is none.
        """
        embeds_apart = self.accelerators or self.embedding_cores
        shared = "vector, tools" if embeds_apart else "embedding, vector, tools"
        lines = [
            f"runtime, {shared}: {self._cores(self.retrieval_cpus)}{self._shared_words()}",
            *self._llm_lines(llm_elsewhere),
            f"memory: {mib(self.total_bytes)} planned of {mib(self.limit_bytes)} allowed "
            f"({MEMORY_SHARE:.0%} of the limit), {mib(self.waiting_bytes)} of it for texts that "
            f"wait for embedding, {self.waiting_tokens:,} tokens",
        ]
        if self.device is not None:
            lines.append(self.device.line())
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

    def _shared_words(self) -> str:
        """Say so where the user's embedding lanes leave no core; empty where they do."""
        named = set(chain.from_iterable(self.embedding_cores))
        shares = not self.is_lent and not named.isdisjoint(self.retrieval_cpus)
        return ", shared with embedding, which leaves none" if shares else ""

    def _llm_lines(self, elsewhere: str) -> Iterator[str]:
        if not self.kv_bytes:
            yield f"llm: {elsewhere or 'none'}"
            return
        where = "" if self.device is None else f" on {self.device.name}"
        for (name, cpus), role in zip(self.llm_lanes.items(), self.llm_roles, strict=True):
            packs = self.packs_weights and role.decodes
            lent = self._cores(self.retrieval_cpus) if self.lends_to_llm else ""
            also = f" (and {lent} while retrieval is idle)" if lent else ""
            also += " (lent to scans of a flat index while idle)" if self.lends_to_scans else ""
            yield (
                f"{name}: {self._cores(cpus)}{also}, {mib(self.kv_bytes)} of KV pages{where}"
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
    nodes: Sequence[Cores] = (),
    device: DevicePlan | None = None,
    *,
    lends_to_llm: bool = True,
    lends_to_scans: bool = True,
) -> Placement:
    """Return a plan that fits the machine.

    Args:
        machine: what this process may use.
        demand: what has to be loaded.
        kv_bytes: KV pages wanted for each LLM lane; None takes half of what is left, at most
            1 GiB each.
        split_memory: splits the bytes that are left for each LLM lane, where a memory profile says
            how; None, or with `kv_bytes`, nothing does.
        nodes: the cores of each NUMA node, where lanes are pinned; () = nodes don't matter.
        device: the GPU that KV pages lie on; None = they lie in the host's memory.
        lends_to_llm: whether the LLM computes on retrieval's cores, too, while that is idle, where
            both have cores of their own.
        lends_to_scans: whether scans of lists use the LLM's likewise.

    Raises:
        ConfigError: it doesn't fit; the message says what takes how much.
    """
    lanes = demand.llm_lanes
    if lanes > machine.cores:
        raise ConfigError(
            f"llm_lanes or replicas names {lanes} lanes, and this process may use {machine.cores} "
            "cores: name at most as many lanes, or allow it more cores"
        )
    is_pinned = machine.cores == len(machine.cpus)
    shares = share_cores(nodes or _one_node(machine, demand), demand)
    can_lend = is_pinned and len(nodes) < 2 and _can_lend(shares, demand)
    cpu_lanes = len(shares.embedding)
    limit = int(machine.memory_limit_bytes * MEMORY_SHARE)
    processes = demand.processes(cpu_lanes) * PROCESS_BYTES
    copies = demand.embedders(cpu_lanes)
    embedders = copies * demand.embedder_bytes + demand.replicas * demand.readers_bytes
    index = demand.replicas * demand.index_bytes
    models = lanes * demand.llm_bytes
    fixed = processes + models + embedders + index + WAITING_BYTES_MIN
    pools = lanes if device is None else 0  # of KV pages, in the host's memory
    wanted = pools * (KV_BYTES_MIN if kv_bytes is None else kv_bytes)
    kv, split = 0, None
    if device is not None:
        kv, split = device.kv_bytes, device.split
    elif lanes and kv_bytes is None and split_memory is not None:
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
            "take a smaller model or index, lower kv_cache_bytes, or raise the memory limit"
        )
    packed = demand.packed_bytes * sum(role.decodes for role in demand.llm_roles)
    packs_weights = 0 < packed <= limit - fixed - pools * kv
    total = fixed + pools * kv + (packed if packs_weights else 0)
    waiting = min(WAITING_BYTES_MAX, WAITING_BYTES_MIN + limit - total)
    return Placement(
        shares.retrieval,
        shares.llm,
        kv,
        total + waiting - WAITING_BYTES_MIN,
        limit,
        is_pinned=is_pinned,
        packs_weights=packs_weights,
        embedding_cores=shares.embedding,
        is_lent=shares.is_lent,
        accelerators=demand.accelerators,
        waiting_bytes=waiting,
        llm_roles=demand.llm_roles,
        retrieval_lanes=demand.retrieval_lanes,
        split=split,
        device=device,
        lends_to_llm=can_lend and lends_to_llm,
        # Embedding that works on the LLM's cores comes while the LLM is idle, too.
        lends_to_scans=can_lend and lends_to_scans and not shares.is_lent,
    )


def _can_lend(shares: CoreShares, demand: Demand) -> bool:
    """Whether retrieval and an LLM on the CPU, one lane each, have cores of their own to lend."""
    takers = set(chain(*shares.llm, *shares.embedding))
    is_apart = takers.isdisjoint(shares.retrieval)
    return is_apart and len(shares.llm) == demand.retrieval_lanes == 1 and demand.llm_on_cpu


def _one_node(machine: MachineFacts, demand: Demand) -> tuple[Cores, ...]:
    """Return as many cores as the quota grants, those that the user has named among them."""
    named = set(chain.from_iterable(demand.named_cores))
    others = [core for core in machine.cpus if core not in named]
    return (tuple(sorted(named.union(others[: max(0, machine.cores - len(named))]))),)
