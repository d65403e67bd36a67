"""A lowered and optimised region, ready to run again and again: what waits for what."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import PGraph
from heddle.graph.primitive import Primitive, ResumeConfig
from heddle.lowering.lower import lower_region
from heddle.lowering.rounds import lower_round
from heddle.lowering.scope import Scope
from heddle.passes.runner import PassRecord, PassRunner
from heddle.runtime.primitive_plan import PrimitivePlan, plan_primitives
from heddle.workflow.nodes import NodeId
from heddle.workflow.workflow import Workflow

PLANS_MAX = 256


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """Everything about a region that doesn't depend on the request.

    `readers` maps keys from outside to their readers. `lowered` is the region's graph before any
    pass; `passes` changed it; `failures` names those that failed and were left out.
    """

    primitives: Mapping[str, PrimitivePlan]
    nodes: tuple[NodeId, ...]
    scope: Scope
    readers: Mapping[str, tuple[str, ...]]
    lowered: PGraph
    passes: tuple[str, ...]
    failures: tuple[str, ...]


@dataclass(slots=True)
class _Kept:
    """A plan in the cache, and whose it is; `is_opened`: a request has run it."""

    owner: object
    plan: RegionPlan
    is_opened: bool = False


@dataclass(slots=True)
class RegionPlanner:
    """Lowers, optimises and caches regions by workflow and scope.

    Mutates: a bounded cache, least recently used out first.
    """

    runner: PassRunner
    _plans: OrderedDict[object, _Kept] = field(default_factory=OrderedDict)

    def plan(
        self,
        workflow: Workflow,
        entries: tuple[NodeId, ...],
        scope: Scope,
        optimize: bool,
        requested: frozenset[str] = frozenset(),
        *,
        opens: bool = True,
    ) -> RegionPlan:
        """Return the region that starts at `entries`, from the cache where it is known.

        `requested` names the passes that run for this request beside those that all get; where it
        `opens` the region, the request runs it.
        """
        key = id(workflow), entries, scope, optimize, requested
        kept = self._known(key)
        if kept is None:
            region = lower_region(workflow, entries, scope)
            plan = self._make(region.graph, region.nodes, region.scope, optimize, requested)
            kept = self._keep(key, workflow, plan) if workflow.is_kept else _Kept(workflow, plan)
        kept.is_opened |= opens
        return kept.plan

    def plan_round(
        self,
        workflow: Workflow,
        rounds: Primitive,
        number: int,
        depth: int,
        optimize: bool,
    ) -> RegionPlan:
        """Return round `number` of a generation that decodes in rounds; no node begins in it.

        `rounds` is the primitive of the workflow that waits for it, at depth `depth`.
        """
        key = id(rounds), number, depth, optimize
        kept = self._known(key)
        if kept is None:
            plan = self._make(lower_round(rounds, number, depth), (), Scope(), optimize)
            kept = self._keep(key, rounds, plan) if workflow.is_kept else _Kept(rounds, plan)
        return kept.plan

    def plan_checks(self, checks: PGraph) -> RegionPlan:
        """Return the plan of searches that a kept answer rests on and that run again."""
        return self._make(checks, (), Scope(), False)

    def plan_wait(self, function: str, key: str, number: int) -> RegionPlan:
        """Return the `number`-th wait of a workflow function, for the value of a key."""
        primitive = Primitive(
            name=f"{function}.resume@{number}",
            kind=PrimitiveKind.CONDITION,
            node=function,
            reads=(key,),
            writes=(),
            config=ResumeConfig(key),
        )
        return self._make(PGraph((primitive,), frozenset(), frozenset({key})), (), Scope(), False)

    def lowered_of(self, workflow: str) -> tuple[PGraph, ...]:
        """Return the graphs, before any pass, of the kept regions of a workflow, by its name.

        Those that requests have opened last come last. Rounds are not among them.
        """
        return tuple(
            kept.plan.lowered
            for kept in self._plans.values()
            if kept.is_opened and _is_named(kept.owner, workflow)
        )

    def _known(self, key: object) -> _Kept | None:
        kept = self._plans.get(key)
        if kept is not None:
            self._plans.move_to_end(key)
        return kept

    def _keep(self, key: object, owner: object, plan: RegionPlan) -> _Kept:
        # Whose id is in the key is kept beside the plan, so no other object can get that id.
        kept = self._plans[key] = _Kept(owner, plan)
        if len(self._plans) > PLANS_MAX:
            self._plans.popitem(last=False)
        return kept

    def _make(
        self,
        graph: PGraph,
        nodes: tuple[NodeId, ...],
        scope: Scope,
        optimize: bool,
        requested: frozenset[str] = frozenset(),
    ) -> RegionPlan:
        lowered, records = graph, tuple[PassRecord, ...]()
        if optimize:
            graph, records = self.runner.optimize(graph, requested)
        return _plan_of(lowered, graph, nodes, scope, records)


def _is_named(owner: object, workflow: str) -> bool:
    return isinstance(owner, Workflow) and owner.name == workflow


def _plan_of(
    lowered: PGraph,
    graph: PGraph,
    nodes: tuple[NodeId, ...],
    scope: Scope,
    records: Sequence[PassRecord],
) -> RegionPlan:
    """Return the plan of an optimised graph."""
    readers: dict[str, tuple[str, ...]] = {}
    for primitive in graph.primitives:
        for key in primitive.reads:
            if key in graph.inputs:
                readers[key] = (*readers.get(key, ()), primitive.name)
    return RegionPlan(
        primitives=plan_primitives(graph, nodes),
        nodes=nodes,
        scope=scope,
        readers=readers,
        lowered=lowered,
        passes=tuple(record.name for record in records if record.changed),
        failures=tuple(record.error for record in records if record.error),
    )
