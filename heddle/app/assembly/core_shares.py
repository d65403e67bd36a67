"""Which lane runs on which cores: one core budget, and no lane across two NUMA nodes.

Source: WindVE §IV-D (embedding takes high cores of one node, the service keeps the low ones).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from heddle.app.assembly.demand import Cores, Demand
from heddle.core.errors import ConfigError

LLM_HOST_CORES: Final = 2  # of an LLM on an accelerator: one steps it, one loads chunk KV
RETRIEVAL_SHARE: Final = 4  # it gets a quarter, where other lanes need cores, too


class CoreShares(NamedTuple):
    """The cores of retrieval, and of each lane of the LLM and of embedding on the CPU.

    `is_lent`: embedding may use the LLM's cores while that is idle. Embedding's are written the
    highest first.
    """

    retrieval: Cores
    llm: tuple[Cores, ...] = ()
    embedding: tuple[Cores, ...] = ()
    is_lent: bool = False


def share_cores(nodes: Sequence[Cores], demand: Demand) -> CoreShares:
    """Return the cores of each lane: together no more threads than cores, or one thread a lane.

    Retrieval gets a quarter, or all where no other lane needs a core. On one node an LLM on the CPU
    gets the rest and lends it to embedding: an embedding share would slow every token for a rare
    spill. An LLM on an accelerator needs few cores, and embedding gets the rest. Each LLM lane has
    a core. Where that leaves none for retrieval, retrieval shares the first.

    On several nodes each lane stays inside one. Retrieval has the first node's low cores, LLM lanes
    go to the nodes with the most cores a lane, the last ones first, and embedding has a lane on
    each node for the cores that are left there.

    Args:
        nodes: the usable cores of each NUMA node, ascending; one entry where nodes don't matter.
        demand: what wants cores.

    Raises:
        ConfigError: the user's lanes leave an LLM lane no core.
    """
    if demand.named_cores:
        return _beside_named(nodes, demand)
    if len(nodes) > 1:
        shares = _on_nodes(_without_highest(nodes, demand), demand)
        if shares is not None:
            return shares
    return _on_one([core for node in nodes for core in node], demand)


def lane_cores(nodes: Sequence[Cores], lanes: int) -> tuple[Cores, ...]:
    """Return the cores of equal lanes that have a machine to themselves, each on one NUMA node.

    Args:
        nodes: the usable cores of each NUMA node, at least as many as lanes.
        lanes: how many.
    """
    homes = _homes(nodes, lanes, None)
    assert homes is not None, f"{lanes} lanes on {nodes}: each needs a core"
    found = {
        number: cores
        for node, numbers in zip(nodes, homes, strict=True)
        for number, cores in zip(numbers, _divided(node, len(numbers)), strict=True)
    }
    return tuple(found[number] for number in range(lanes))


def _beside_named(nodes: Sequence[Cores], demand: Demand) -> CoreShares:
    """Give the user's lanes what they name, and share what is left as if nothing embedded."""
    named = {core for cores in demand.named_cores for core in cores}
    left = tuple(kept for node in nodes if (kept := tuple(c for c in node if c not in named)))
    if not left:
        if demand.llm_lanes:
            raise ConfigError(
                "embedding_lanes names every core that this process may use, and the LLM needs "
                "one: name fewer cores"
            )
        left = ((min(named),),)  # retrieval shares it
    count = sum(map(len, left))
    if count < demand.llm_lanes:
        raise ConfigError(
            f"embedding_lanes leaves {count} of the cores that this process may use, and each of "
            f"the {demand.llm_lanes} LLM lanes needs one: name fewer cores"
        )
    rest = share_cores(left, replace(demand, spills=False, named_cores=()))
    lanes = tuple(tuple(sorted(cores, reverse=True)) for cores in demand.named_cores)
    return rest._replace(embedding=lanes, is_lent=False)


def _on_one(cpus: Sequence[int], demand: Demand) -> CoreShares:
    cpus, lanes = tuple(cpus), demand.llm_lanes
    # A thread drives each accelerator, on any core.
    free = cpus[: max(1 + lanes, len(cpus) - demand.accelerators)]
    if lanes and len(free) <= lanes:
        return CoreShares(free[:1], _divided(free, lanes))
    if not lanes and not demand.spills:
        return CoreShares(free)
    quarter = max(1, min(len(free) // RETRIEVAL_SHARE, len(free) - lanes))
    retrieval, rest = free[:quarter], free[quarter:]
    if not demand.spills:
        return CoreShares(retrieval, _divided(rest, lanes))
    if lanes and demand.llm_on_cpu:
        return CoreShares(retrieval, _divided(rest, lanes), _as_lanes(rest), is_lent=True)
    hosts = LLM_HOST_CORES * lanes
    return CoreShares(retrieval, _divided(rest[:hosts], lanes), _as_lanes(rest[hosts:]))


def _on_nodes(nodes: Sequence[Cores], demand: Demand) -> CoreShares | None:
    """Return shares with each lane on one node; None = there are too few cores for that."""
    lanes, total = demand.llm_lanes, sum(map(len, nodes))
    if not lanes and not demand.spills:
        return CoreShares(max(nodes, key=len))
    low = max(1, min(len(nodes[0]), total // RETRIEVAL_SHARE))
    left = [nodes[0][low:], *nodes[1:]]
    wanted = None if demand.llm_on_cpu else LLM_HOST_CORES
    homes = _homes(left, lanes, wanted)
    if homes is None:
        return None
    llm: dict[int, Cores] = {}
    for node, numbers in enumerate(homes):
        taken = left[node] if wanted is None else left[node][: wanted * len(numbers)]
        if numbers:
            llm.update(zip(numbers, _divided(taken, len(numbers)), strict=True))
            left[node] = left[node][len(taken) :]
    retrieval = nodes[0][:low]
    if not demand.spills:
        # Nothing else would use them.
        retrieval += left[0]
        left = []
    embedding = tuple(lane for node in left for lane in _as_lanes(node))
    llm_cores = tuple(llm[number] for number in range(lanes))
    is_lent = demand.spills and not embedding and demand.llm_on_cpu and demand.accelerators > 0
    if is_lent:
        embedding = tuple(lane for cores in llm_cores for lane in _as_lanes(cores))
    return CoreShares(retrieval, llm_cores, embedding, is_lent)


def _homes(left: Sequence[Cores], lanes: int, wanted: int | None) -> list[list[int]] | None:
    """Return the LLM lanes of each node, by number; None = a lane would have no core.

    Args:
        left: the cores of each node that are free.
        lanes: LLM lanes.
        wanted: cores of each lane; None = as many as its node has.
    """
    homes: list[list[int]] = [[] for _ in left]

    def cores_a_lane(node: int) -> float:
        share = len(left[node]) / (len(homes[node]) + 1)
        return share if wanted is None else min(share, wanted)

    # Hosts of accelerators stay low, beside the service; lanes that compute go high.
    nodes = list(range(len(left)))[:: 1 if wanted else -1]
    for number in range(lanes):
        node = max(nodes, key=lambda node: (cores_a_lane(node), -len(homes[node])))
        if cores_a_lane(node) < 1:
            return None
        homes[node].append(number)
    return homes


def _without_highest(nodes: Sequence[Cores], demand: Demand) -> list[Cores]:
    """Return the nodes without a core for each accelerator's thread, the highest ones."""
    cores = [core for node in nodes for core in node]
    kept = set(cores[: max(1 + demand.llm_lanes, len(cores) - demand.accelerators)])
    trimmed = (tuple(core for core in node if core in kept) for node in nodes)
    return [node for node in trimmed if node]


def _divided(cores: Cores, lanes: int) -> tuple[Cores, ...]:
    """Return the cores of each lane, as even as they divide."""
    ends = [number * len(cores) // max(1, lanes) for number in range(lanes + 1)]
    return tuple(cores[start:stop] for start, stop in pairwise(ends))


def _as_lanes(cores: Cores) -> tuple[Cores, ...]:
    """Return one lane with the cores of a node, the highest first; () = there are none."""
    return (tuple(sorted(cores, reverse=True)),) if cores else ()
