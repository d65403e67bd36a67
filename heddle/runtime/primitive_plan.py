"""A primitive's place in its region: what holds for every request that runs it."""

from dataclasses import dataclass

from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import EdgeKind, PGraph, depths
from heddle.graph.primitive import AskConfig, DecodeConfig, Primitive
from heddle.runtime.events import NodeFinished, NodeStarted
from heddle.workflow.nodes import NodeId

SPLITTABLE = (PrimitiveKind.EMBEDDING, PrimitiveKind.SEARCHING)
GROWING = (*SPLITTABLE, PrimitiveKind.INGESTION)
STARTING = (
    PrimitiveKind.EMBEDDING,
    PrimitiveKind.EXTRACTING,
    PrimitiveKind.PREFILLING,
    PrimitiveKind.TOOL,
)


@dataclass(frozen=True, slots=True)
class PrimitivePlan:
    """A primitive, and all that a request would otherwise work out about it again and again.

    `turn` says how often its node has run before, in a loop. `waits` counts its producers inside
    the region; `after` lists who waits for it. `rider` is the decode that rides along with a
    prefill, `asking` what runs its question ahead. It may begin with the items that are there of
    what `items_from` write, as `items_to` may with its own. Rows of what `is_splittable` may be
    sent in several goes, and what `grows` may begin with its first rows; what `is_control` the
    runtime carries out itself.

    `started` and `finished` are what callers hear: when its node begins with it, and when the
    value of a node is written with it. That node is `value_of`, the region's `place`-th. Of a node
    without work for an engine, such as a join, they hear nothing.
    """

    primitive: Primitive
    turn: int
    depth: int
    waits: int
    after: tuple[str, ...]
    rider: str | None
    asking: str | None
    items_from: tuple[str, ...]
    items_to: tuple[str, ...]
    is_splittable: bool
    grows: bool
    is_control: bool
    started: NodeStarted | None
    finished: NodeFinished | None
    value_of: NodeId | None
    place: int


def plan_primitives(graph: PGraph, nodes: tuple[NodeId, ...]) -> dict[str, PrimitivePlan]:
    """Return the plans of a region's primitives by name; `nodes` are those that begin in it."""
    pairs = {(e.producer, e.consumer) for e in graph.edges}
    items = sorted((e.producer, e.consumer) for e in graph.edges if e.kind is EdgeKind.ITEMS)
    depth, riders, last = depths(graph), _riders(graph), _last_primitives(graph, nodes)
    askings = {
        p.config.prefill: p.name for p in graph.primitives if isinstance(p.config, AskConfig)
    }
    begun = {primitive.node for primitive in graph.primitives if primitive.kind in STARTING}
    plans = {}
    for primitive in graph.primitives:
        name, node = primitive.name, primitive.node
        turn = primitive.turn
        value_of = last.get(name)
        plans[name] = PrimitivePlan(
            primitive=primitive,
            turn=turn,
            depth=depth[name],
            waits=sum(1 for _, consumer in pairs if consumer == name),
            after=tuple(sorted(consumer for producer, consumer in pairs if producer == name)),
            rider=riders.get(name),
            asking=askings.get(name),
            items_from=tuple(producer for producer, consumer in items if consumer == name),
            items_to=tuple(consumer for producer, consumer in items if producer == name),
            is_splittable=primitive.kind in SPLITTABLE,
            grows=primitive.kind in GROWING,
            is_control=primitive.kind.is_control,
            started=NodeStarted(node, turn) if nodes and primitive.kind in STARTING else None,
            finished=NodeFinished(node, turn) if value_of is not None and node in begun else None,
            value_of=value_of,
            place=0 if value_of is None else nodes.index(value_of),
        )
    return plans


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
    seen = {p.node: p.name for p in graph.primitives if p.kind is not PrimitiveKind.CONDITION}
    return {seen[str(node)]: node for node in nodes}
