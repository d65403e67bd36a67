"""Where the LLM lanes of a server stand on the nodes of a cluster. Pure. (docs/guide/cluster.md)"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from heddle.app.assembly.core_shares import lane_cores
from heddle.app.assembly.demand import KV_BYTES_MIN, Cores
from heddle.app.assembly.placement import KV_BYTES_MAX, MEMORY_SHARE, PROCESS_BYTES
from heddle.core.errors import ConfigError
from heddle.core.printing.sizes import mib
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names
from heddle.hosts.machine import MachineFacts

FIELD: Final = "replicas and llm_lanes"


class NodeFacts(NamedTuple):
    """A node by its name, what its agent may use there, and the cores of each NUMA node."""

    name: str
    machine: MachineFacts
    numa_nodes: tuple[Cores, ...]


@dataclass(frozen=True, slots=True)
class ClusterDemand:
    """What has to stand on nodes. Sizes in bytes.

    Args:
        roles: of the LLM lanes; lanes of one role stand on different nodes.
        llm_bytes: each lane's weights as they lie in memory.
        packed_bytes: a second copy of them for decoding, which may be left out.
        kv_bytes: KV pages wanted for each lane; None takes what is left, at most 1 GiB each.
        needs_gpu: whether each lane needs a GPU, the first one of its node.
    """

    roles: tuple[LaneRole, ...]
    llm_bytes: int
    packed_bytes: int = 0
    kv_bytes: int | None = None
    needs_gpu: bool = False

    @property
    def lane_bytes(self) -> int:
        """The least that a lane takes on its node."""
        kv_bytes = KV_BYTES_MIN if self.kv_bytes is None else self.kv_bytes
        return PROCESS_BYTES + self.llm_bytes + kv_bytes


class LanePlace(NamedTuple):
    """A node's name, the cores that a lane is pinned to there (() = any), and its threads."""

    node: str
    cpus: tuple[int, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The nodes of a server's LLM lanes.

    Args:
        demand: what was placed.
        nodes: all nodes, in their order.
        places: of each lane, by its name.
        kv_bytes: KV pages of each lane; lanes are alike, so that any can take any prompt.
        packs_weights: whether each node has memory for packed weights as well.
    """

    demand: ClusterDemand
    nodes: tuple[NodeFacts, ...]
    places: Mapping[str, LanePlace]
    kv_bytes: int
    packs_weights: bool

    @property
    def threads_max(self) -> int:
        """The threads of the lane that has most."""
        return max(place.threads for place in self.places.values())

    def record(self) -> dict[str, object]:
        """Return the lanes of each node as plain values, for JSON."""
        return {
            node.name: [lane for lane, place in self.places.items() if place.node == node.name]
            for node in self.nodes
        }

    def options(self, lane: str, where: Mapping[str, str]) -> tuple[LanePlace, ...]:
        """Return where a lane can be started, its planned place first, then the emptiest nodes.

        Args:
            lane: its name.
            where: the node of each lane that has one, by the lane's name.
        """
        roles = dict(zip(lane_names(self.demand.roles), self.demand.roles, strict=True))
        others = {name: node for name, node in where.items() if name != lane}
        alike = {node for name, node in others.items() if roles[name] is roles[lane]}
        taken = Counter(others.values())
        need = self._lane_bytes()
        found = [
            (taken[node.name], _spare_place(node, taken[node.name]))
            for node in self.nodes
            if node.name not in alike
            and taken[node.name] < lanes_that_fit(node.machine, need, self.demand.needs_gpu)
        ]
        planned = self.places[lane]
        spares = [p for _, p in sorted(found, key=lambda f: f[0]) if p.node != planned.node]
        is_free = any(place.node == planned.node for _, place in found)
        return (planned, *spares) if is_free else tuple(spares)

    def lines(self) -> Iterator[str]:
        """Yield the plan as `heddle doctor` prints it."""
        packed = ", weights packed for decoding" if self.packs_weights else ""
        for node in self.nodes:
            here = {name: p for name, p in self.places.items() if p.node == node.name}
            fits = lanes_that_fit(node.machine, self._lane_bytes(), self.demand.needs_gpu)
            yield (
                f"node {node.name}: {len(here)} of {fits} LLM lanes that fit into "
                f"{mib(limit_bytes(node.machine))} and {node.machine.cores} cores"
            )
            for name, place in here.items():
                cores = f"cores {', '.join(map(str, place.cpus))}" if place.cpus else "any core"
                yield (
                    f"{name} on {node.name}: {cores}, {place.threads} threads, "
                    f"{mib(self.kv_bytes)} of KV pages{packed}"
                )

    def _lane_bytes(self) -> int:
        packed = self.demand.packed_bytes if self.packs_weights else 0
        return PROCESS_BYTES + self.demand.llm_bytes + packed + self.kv_bytes


def plan_cluster(nodes: Sequence[NodeFacts], demand: ClusterDemand) -> ClusterPlan:
    """Return where each LLM lane stands, spread as evenly as memory and cores let it.

    The lanes of a role go to different nodes, the role with the most lanes first, the nodes with
    room for the most lanes first. This finds places wherever there are any. (Gale and Ryser)

    Args:
        nodes: their names are distinct.
        demand: what has to stand there.

    Raises:
        ConfigError: there is no room; the message says of each node how many lanes fit, and why.
    """
    fits = {
        node.name: lanes_that_fit(node.machine, demand.lane_bytes, demand.needs_gpu)
        for node in nodes
    }
    room, chosen = dict(fits), dict[str, str]()
    names = lane_names(demand.roles)
    for role, count in Counter(demand.roles).most_common():
        if count > len(nodes):
            raise ConfigError(
                f"{FIELD} want {count} LLM lanes of role {role.value}, each on a node of its own, "
                f"and the nodes are {len(nodes)} ({', '.join(fits)}): ask for fewer lanes, or add "
                "nodes"
            )
        free = sorted((name for name in room if room[name]), key=lambda name: -room[name])
        if len(free) < count:
            raise ConfigError(_no_room(nodes, demand, fits))
        lanes = (lane for lane, own in zip(names, demand.roles, strict=True) if own is role)
        for lane, node in zip(lanes, free, strict=False):
            chosen[lane] = node
            room[node] -= 1
    known = {node.name: node for node in nodes}
    spare = [
        (limit_bytes(known[node].machine) - count * demand.lane_bytes) // count
        for node, count in Counter(chosen.values()).items()
    ]
    kv_bytes = demand.kv_bytes
    if kv_bytes is None:
        kv_bytes = min(KV_BYTES_MAX, KV_BYTES_MIN + min(spare) // 2)
        spare = [left - (kv_bytes - KV_BYTES_MIN) for left in spare]
    return ClusterPlan(
        demand,
        tuple(nodes),
        {lane: place for lane, place in _with_cores(known, names, chosen)},
        kv_bytes,
        packs_weights=0 < demand.packed_bytes <= min(spare),
    )


def limit_bytes(machine: MachineFacts) -> int:
    """Return what lanes may take of a node's memory [bytes]."""
    return int(machine.memory_limit_bytes * MEMORY_SHARE)


def lanes_that_fit(machine: MachineFacts, lane_bytes: int, needs_gpu: bool) -> int:
    """Return how many LLM lanes a node has memory, cores, and where needed a GPU for."""
    gpus = min(1, len(machine.gpus)) if needs_gpu else machine.cores
    return min(limit_bytes(machine) // lane_bytes, machine.cores, gpus)


def _with_cores(
    nodes: Mapping[str, NodeFacts], names: Sequence[str], chosen: Mapping[str, str]
) -> Iterator[tuple[str, LanePlace]]:
    """Yield each lane's place: the lanes of a node divide its cores, as even as they go.

    Each stays inside a NUMA node. Under a quota of the cgroup no lane is pinned.
    """
    for lane in names:
        node = nodes[chosen[lane]]
        beside = [other for other in names if chosen[other] == node.name]
        number, cores = beside.index(lane), node.machine.cores
        if cores == len(node.machine.cpus):
            cpus = lane_cores(node.numa_nodes, len(beside))[number]
            yield lane, LanePlace(node.name, cpus, len(cpus))
        else:
            start, stop = (n * cores // len(beside) for n in (number, number + 1))
            yield lane, LanePlace(node.name, (), stop - start)


def _spare_place(node: NodeFacts, others: int) -> LanePlace:
    """Return a place beside others that were planned without it: none of them has cores to give."""
    return LanePlace(node.name, (), max(1, node.machine.cores // (others + 1)))


def _no_room(nodes: Sequence[NodeFacts], demand: ClusterDemand, fits: Mapping[str, int]) -> str:
    gpu = " and a GPU (device)" if demand.needs_gpu else ""
    each = "; ".join(
        f"{node.name} fits {fits[node.name]} of them in {mib(limit_bytes(node.machine))}, "
        f"{node.machine.cores} cores and {len(node.machine.gpus)} GPUs"
        for node in nodes
    )
    return (
        f"{FIELD} want {len(demand.roles)} LLM lanes, each with {mib(demand.lane_bytes)} "
        f"(weights {mib(demand.llm_bytes)}), a core{gpu}, equal ones on different nodes: {each}; "
        "ask for fewer lanes, take a smaller model, or add nodes"
    )
