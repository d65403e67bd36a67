"""A lowered and optimised region, ready to run again and again: what waits for what."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import EdgeKind, PGraph, depths
from heddle.graph.primitive import DecodeConfig, Primitive
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import Scope
from heddle.passes.runner import PassRecord, PassRunner
from heddle.workflow.nodes import NodeId
from heddle.workflow.workflow import Workflow

PLANS_MAX = 256


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """Everything about a region that doesn't depend on the request.

    `waits` counts, for each primitive, the producers inside the region; `after` lists who waits
    for it. `readers` maps keys from outside to their readers. `rider` maps a prefill to the
    decode that rides along with it. `passes` changed the region's graph; `fallbacks` tells of
    those that failed and were left out.
    """

    primitives: Mapping[str, Primitive]
    nodes: tuple[NodeId, ...]
    scope: Scope
    depth: Mapping[str, int]
    waits: Mapping[str, int]
    after: Mapping[str, tuple[str, ...]]
    readers: Mapping[str, tuple[str, ...]]
    rider: Mapping[str, str]
    last: Mapping[str, NodeId]
    passes: tuple[str, ...]
    fallbacks: tuple[str, ...]


@dataclass(slots=True)
class RegionPlanner:
    """Lowers, optimises and caches regions by workflow and scope.

    Mutates: a bounded cache, least recently used out first.
    """

    runner: PassRunner
    _plans: OrderedDict[object, tuple[Workflow, RegionPlan]] = field(default_factory=OrderedDict)

    def plan(
        self, workflow: Workflow, entries: tuple[NodeId, ...], scope: Scope, optimize: bool
    ) -> RegionPlan:
        """Return the region that starts at `entries`, from the cache where it is known."""
        key = id(workflow), entries, scope, optimize
        if key in self._plans:
            self._plans.move_to_end(key)
            return self._plans[key][1]
        plan = self._make(workflow, entries, scope, optimize)
        # The workflow is kept beside its plan, so its id can't be given to another one.
        self._plans[key] = workflow, plan
        if len(self._plans) > PLANS_MAX:
            self._plans.popitem(last=False)
        return plan

    def _make(
        self, workflow: Workflow, entries: tuple[NodeId, ...], scope: Scope, optimize: bool
    ) -> RegionPlan:
        region = lower_region(workflow, entries, scope)
        graph, records = self.runner.optimize(region.graph) if optimize else (region.graph, ())
        return plan_of(graph, region.nodes, region.scope, records)


def plan_of(
    graph: PGraph, nodes: tuple[NodeId, ...], scope: Scope, records: Sequence[PassRecord]
) -> RegionPlan:
    """Return the plan of an optimised graph."""
    pairs = {(e.producer, e.consumer) for e in graph.edges}
    outside: dict[str, tuple[str, ...]] = {}
    for primitive in graph.primitives:
        for key in primitive.reads:
            if key in graph.inputs:
                outside[key] = (*outside.get(key, ()), primitive.name)
    by_name = graph.by_name()
    return RegionPlan(
        primitives=by_name,
        nodes=nodes,
        scope=scope,
        depth=depths(graph),
        waits={name: sum(1 for _, c in pairs if c == name) for name in by_name},
        after={name: tuple(sorted(c for p, c in pairs if p == name)) for name in by_name},
        readers=outside,
        rider=_riders(graph),
        last=_last_primitives(graph, nodes),
        passes=tuple(record.name for record in records if record.changed),
        fallbacks=tuple(record.error for record in records if record.error),
    )


def _riders(graph: PGraph) -> dict[str, str]:
    """A decode that waits for its prefill alone can be sent with it."""
    by_name = graph.by_name()
    riders = {}
    for edge in graph.edges:
        decode = by_name[edge.consumer]
        waits = {e.producer for e in graph.edges if e.consumer == decode.name}
        is_own = isinstance(decode.config, DecodeConfig) and edge.kind is EdgeKind.DATA
        if is_own and waits == {edge.producer}:
            riders[edge.producer] = decode.name
    return riders


def _last_primitives(graph: PGraph, nodes: tuple[NodeId, ...]) -> dict[str, NodeId]:
    """The primitive after which a node's value is written."""
    ids = {str(node): node for node in nodes}
    last: dict[str, NodeId] = {}
    seen: dict[str, str] = {}
    for primitive in graph.primitives:
        if primitive.kind is not PrimitiveKind.CONDITION:
            seen[primitive.node] = primitive.name
    for node, name in seen.items():
        last[name] = ids[node]
    return last
