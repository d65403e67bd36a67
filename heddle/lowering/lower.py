"""Lower a region: the nodes that static edges lead to from where a request stands."""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind, PGraph, data_edges, outside_reads
from heddle.graph.primitive import Primitive
from heddle.lowering.answer_cache import lower_answer_cache
from heddle.lowering.branch import lower_branch
from heddle.lowering.documents import lower_documents
from heddle.lowering.generation import lower_generation
from heddle.lowering.indexing import lower_indexing
from heddle.lowering.join import lower_join
from heddle.lowering.priming import lower_priming
from heddle.lowering.reading import lower_reading
from heddle.lowering.retrieval import lower_retrieval
from heddle.lowering.rounds import lower_rounds
from heddle.lowering.scope import Scope
from heddle.lowering.tool import lower_tool
from heddle.workflow.compile import reachable
from heddle.workflow.nodes import (
    AnswerCacheNode,
    DocumentsNode,
    ExtractionNode,
    GenerationNode,
    IndexingNode,
    JoinNode,
    Node,
    NodeId,
    PrimingNode,
    RankingNode,
    RetrievalNode,
)
from heddle.workflow.workflow import Workflow, static_order

PRIMITIVES_A_NODE = 2  # what a node not lowered yet is taken to add to the depth


@dataclass(frozen=True, slots=True)
class Region:
    """A lowered region: its p-graph, the nodes in it, and the scope after it."""

    graph: PGraph
    nodes: tuple[NodeId, ...]
    scope: Scope


def lower_region(workflow: Workflow, entries: tuple[NodeId, ...], scope: Scope) -> Region:
    """Lower everything that static edges reach from `entries`, up to callable edges.

    Source: Teola Algorithm 1, GraphTransform, for one region; conditional edges and loops are
        lowered region by region as they run (Teola §8 leaves them open).
    """
    inside = reachable(entries, lambda node: workflow.successors[node])
    nodes = tuple(n for n in static_order(workflow.nodes, workflow.edges) if n in inside)
    taken_before = {slot: scope.taken_of(slot) for slot in workflow.list_slots}
    lowered: dict[NodeId, tuple[Primitive, ...]] = {}
    for node in nodes:
        component = workflow.nodes[node]
        lowered[node], output_key = _lower_node(component, workflow, scope)
        scope = scope.with_turn(node).with_key(component.output, output_key)
        if component.output in workflow.list_slots:
            scope = scope.with_taken(component.output, 0)
            taken_before[component.output] = 0
    scope = _consume(workflow, nodes, scope, taken_before)
    conditions = tuple(
        lower_branch(workflow.branch_of[n], workflow, scope, scope.turn_of(n) - 1)
        for n in nodes
        if n in workflow.branch_of
    )
    primitives = (*(p for node in nodes for p in lowered[node]), *conditions)
    graph = _join(workflow, nodes, lowered, conditions, primitives)
    return Region(graph, nodes, scope)


def _lower_node(node: Node, workflow: Workflow, scope: Scope) -> tuple[tuple[Primitive, ...], str]:
    if isinstance(node, GenerationNode):
        if node.decode_retrieval is not None:
            return lower_rounds(node, node.decode_retrieval, workflow, scope)
        return lower_generation(node, workflow, scope)
    if isinstance(node, RetrievalNode):
        return lower_retrieval(node, workflow, scope)
    if isinstance(node, ExtractionNode | RankingNode):
        return lower_reading(node, workflow, scope)
    if isinstance(node, JoinNode):
        return lower_join(node, workflow, scope)
    if isinstance(node, IndexingNode):
        return lower_indexing(node, workflow, scope)
    if isinstance(node, DocumentsNode):
        return lower_documents(node, scope)
    if isinstance(node, PrimingNode):
        return lower_priming(node, scope)
    if isinstance(node, AnswerCacheNode):
        return lower_answer_cache(node, scope)
    return lower_tool(node, workflow, scope)


def _consume(
    workflow: Workflow, nodes: tuple[NodeId, ...], scope: Scope, before: Mapping[str, int]
) -> Scope:
    for slot, consumers in workflow.list_slots.items():
        if consumers & set(nodes):
            scope = scope.with_taken(slot, before[slot] + 1)
    return scope


def _join(
    workflow: Workflow,
    nodes: tuple[NodeId, ...],
    lowered: Mapping[NodeId, tuple[Primitive, ...]],
    conditions: tuple[Primitive, ...],
    primitives: tuple[Primitive, ...],
) -> PGraph:
    edges = set(data_edges(primitives))
    for source in nodes:
        for target in workflow.successors[source]:
            pair = lowered[source][-1], lowered[target][0]
            edges.add(Edge(pair[0].name, pair[1].name, _template_edge_kind(*pair)))
    for condition in conditions:
        source = next(n for n in nodes if str(n) == condition.node)
        edges.add(Edge(lowered[source][-1].name, condition.name, EdgeKind.EFFECT))
    tail = {
        condition.name: PRIMITIVES_A_NODE * workflow.depth_after[source]
        for condition in conditions
        for source in nodes
        if str(source) == condition.node
    }
    return PGraph(primitives, frozenset(edges), outside_reads(primitives), tail)


def _template_edge_kind(producer: Primitive, consumer: Primitive) -> EdgeKind:
    """A template edge carries nothing, unless something outside can be changed by its source."""
    acting = (PrimitiveKind.INGESTION, PrimitiveKind.TOOL)
    effect = producer.kind in acting or consumer.kind in acting
    return EdgeKind.EFFECT if effect else EdgeKind.ORDER
