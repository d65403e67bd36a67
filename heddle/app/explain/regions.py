"""All regions of a workflow: where a request begins, and what callable edges open."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from heddle.graph.pgraph import PGraph, depths
from heddle.graph.primitive import RoundsConfig
from heddle.lowering.lower import Region, lower_region
from heddle.lowering.rounds import lower_round
from heddle.lowering.scope import Scope, initial_scope
from heddle.workflow.nodes import NodeId
from heddle.workflow.workflow import Workflow

REGIONS_MAX: Final = 64
FIRST: Final = "where a request begins"

Places: TypeAlias = frozenset[tuple[str, int]]
"""Nodes, and their turns."""


@dataclass(frozen=True, slots=True)
class ExplainedRegion:
    """A region before any pass, and `when` it is opened, in words."""

    when: str
    graph: PGraph

    @property
    def places(self) -> Places:
        """The nodes that have primitives in it, and the turn of each."""
        return frozenset((p.node, p.turn) for p in self.graph.primitives)


@dataclass(frozen=True, slots=True)
class Regions:
    """Regions in the order in which requests may open them; `left_out`: there are more."""

    found: tuple[ExplainedRegion, ...]
    left_out: bool = False


def regions_of(workflow: Workflow, regions_max: int = REGIONS_MAX) -> Regions:
    """Return what a graph's requests can open, edge by edge.

    A loop opens a region in its first turn and another one, which may differ, in the second. Those
    of later turns are like the second's. An edge that names several nodes at once opens them in
    one region, which isn't listed. A workflow function has no regions before it runs.
    """
    if workflow.function is not None:
        return Regions(())
    scope = initial_scope(dict.fromkeys(workflow.inputs, ""))
    waiting = deque([(FIRST, workflow.entries, scope)])
    seen: set[object] = set()
    found: list[ExplainedRegion] = []
    while waiting:
        when, entries, scope = waiting.popleft()
        region = lower_region(workflow, entries, scope)
        kind = entries, frozenset((node, min(1, scope.turn_of(node))) for node in region.nodes)
        if kind in seen:
            continue
        if len(found) >= regions_max:
            return Regions(tuple(found), left_out=True)
        seen.add(kind)
        found.append(ExplainedRegion(when, region.graph))
        found.extend(_rounds(region.graph))
        waiting.extend(_opened(workflow, region))
    return Regions(tuple(found))


def with_opened(known: Regions, opened: Sequence[PGraph]) -> Regions:
    """Return regions with the graphs that a server has really opened in their place.

    A server may change a workflow for its models, so its graph is the one that counts. Regions that
    were opened and are not known yet come last.
    """
    by_place = {ExplainedRegion("", graph).places: graph for graph in opened}
    found = [
        ExplainedRegion(region.when, by_place.pop(region.places, region.graph))
        for region in known.found
    ]
    found += [ExplainedRegion("as the runs opened it", graph) for graph in by_place.values()]
    return Regions(tuple(found), known.left_out)


def _opened(workflow: Workflow, region: Region) -> Iterator[tuple[str, tuple[NodeId, ...], Scope]]:
    """Yield what the callable edges behind a region's nodes may open, one node at a time."""
    for source in region.nodes:
        branch = workflow.branch_of.get(source)
        for target in () if branch is None else branch.targets:
            again = " again" if region.scope.turn_of(target) else ""
            when = f"where the edge after {source!r} chooses {target!r}{again}"
            yield when, (target,), region.scope


def _rounds(graph: PGraph) -> Iterator[ExplainedRegion]:
    """Yield what each generation that retrieves while it decodes goes on with after a pause."""
    depth = depths(graph)
    for primitive in graph.primitives:
        if not isinstance(primitive.config, RoundsConfig):
            continue
        pause, retrievals_max = primitive.config.pause, primitive.config.retrievals_max
        when = (
            f"after every {pause.after} tokens"
            if pause.after is not None
            else f"before a token of a probability under {pause.below}"
        )
        title = f"node {primitive.node!r} retrieves {when}, at most {retrievals_max} times"
        following = lower_round(primitive, 1, depth[primitive.name])
        yield ExplainedRegion(f"{title}; the first time it goes on with this", following)
