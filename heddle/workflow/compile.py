"""From a drawn graph to a checked workflow: data edges, loops, and every refusal."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from heddle.core.errors import WorkflowError
from heddle.workflow.checking.values import check_whole
from heddle.workflow.nodes import (
    OWN_SLOTS,
    DocumentsNode,
    ExtractionNode,
    GenerationNode,
    Node,
    NodeId,
    Parse,
    RetrievalNode,
)
from heddle.workflow.template import QUESTION
from heddle.workflow.workflow import Branch, Chooser, Workflow, static_order

Edge = tuple[NodeId, NodeId]
WITHOUT_PASSAGES: Final = (GenerationNode, ExtractionNode, DocumentsNode)


@dataclass(frozen=True, slots=True)
class Draft:
    """What the user drew; `branches` hold (source, callable, declared targets or None).

    `indexed` are the inputs that an add_documents node of an earlier part has written.
    """

    name: str
    nodes: Mapping[NodeId, Node]
    starts: tuple[NodeId, ...]
    ends: tuple[NodeId, ...]
    edges: tuple[Edge, ...]
    branches: tuple[tuple[NodeId, Chooser, tuple[NodeId, ...] | None], ...]
    inputs: frozenset[str]
    max_steps: int
    indexed: frozenset[str] = frozenset()

    @property
    def is_drawn(self) -> bool:
        """Whether the user declared any edge; without one, all edges follow from data."""
        return bool(self.starts or self.ends or self.edges or self.branches)


def compile_draft(draft: Draft) -> Workflow:
    """Return the checked workflow, or raise WorkflowError with the node's name."""
    if not draft.nodes:
        raise WorkflowError(f"workflow {draft.name!r} has no nodes; add one with add_generation")
    check_whole(f"workflow {draft.name!r}", "max_steps", draft.max_steps, 1)
    _check_edge_ends(draft)
    writers = _writers(draft)
    _check_decode_retrievals(draft, writers)
    _check_within(draft, writers)
    _check_extractions(draft, writers)
    branches = tuple(
        Branch(source, choose, tuple(draft.nodes) if targets is None else targets)
        for source, choose, targets in draft.branches
    )
    edges = _with_data_edges(draft, writers, loops=bool(branches))
    _check_no_static_loop(draft, edges)
    entries = _entries(draft, edges)
    outputs = _outputs(draft, edges)
    _check_reachable(draft, edges, branches, entries)
    _check_end(draft, edges, branches, outputs)
    list_slots = _list_slots(draft, edges, writers)
    return Workflow(
        name=draft.name,
        nodes={n: _with_parse(node, list_slots) for n, node in draft.nodes.items()},
        edges=edges,
        branches=branches,
        entries=entries,
        outputs=outputs,
        writers=writers,
        list_slots=list_slots,
        inputs=draft.inputs,
        # It bounds loops: a request that runs each node once must never reach it.
        max_steps=max(draft.max_steps, len(draft.nodes)),
    )


def reachable(starts: Iterable[NodeId], step: Callable[[NodeId], Iterable[NodeId]]) -> set[NodeId]:
    """Return `starts` and everything that repeated steps lead to."""
    seen: set[NodeId] = set()
    stack = list(starts)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(step(node))
    return seen


def shown_retrieval(
    node: GenerationNode, nodes: Mapping[NodeId, Node], writers: Mapping[str, NodeId]
) -> RetrievalNode | None:
    """Return the retrieval whose passages a prompt shows last, None where it shows none."""
    for slot in reversed(node.prompt.slots):
        writer = nodes[writers[slot]] if slot in writers else None
        if isinstance(writer, RetrievalNode):
            return writer
    return None


def _after(edges: Iterable[Edge], node: NodeId) -> list[NodeId]:
    return [target for source, target in edges if source == node]


def _check_edge_ends(draft: Draft) -> None:
    named = [n for edge in draft.edges for n in edge] + [*draft.starts, *draft.ends]
    for source, _, targets in draft.branches:
        named += [source, *(targets or ())]
    for node in named:
        if node not in draft.nodes:
            raise WorkflowError(f"an edge names node {node!r}, which was never added")


def _writers(draft: Draft) -> dict[str, NodeId]:
    writers: dict[str, NodeId] = {}
    for node in draft.nodes.values():
        if node.output in writers:
            raise WorkflowError(
                f"nodes {writers[node.output]!r} and {node.id!r} both write slot "
                f"{node.output!r}; give one another output="
            )
        if node.output in draft.inputs:
            raise WorkflowError(f"node {node.id!r} writes {node.output!r}, which is an input")
        writers[node.output] = node.id
    return writers


def _check_decode_retrievals(draft: Draft, writers: Mapping[str, NodeId]) -> None:
    for node in draft.nodes.values():
        if not isinstance(node, GenerationNode) or node.decode_retrieval is None:
            continue
        where = f"generation node {node.id!r}"
        if shown_retrieval(node, draft.nodes, writers) is None:
            raise WorkflowError(
                f"{where}: to retrieve while it decodes, its prompt must show the passages of a "
                "retrieval, such as {docs}: new ones are added there, searched for in its way"
            )
        for slot in node.decode_retrieval.query.slots:
            if slot not in OWN_SLOTS and slot not in writers and slot not in draft.inputs:
                known = ", ".join(sorted({*OWN_SLOTS, *writers, *draft.inputs}))
                raise WorkflowError(
                    f"{where}, query: nothing writes {{{slot}}}; it can be one of {known}"
                )
            if slot in OWN_SLOTS and writers.get(slot, node.id) != node.id:
                raise WorkflowError(
                    f"{where}, query: {{{slot}}} is what this node has written so far, and node "
                    f"{writers[slot]!r} writes a slot of that name; give that one another output="
                )


def _check_within(draft: Draft, writers: Mapping[str, NodeId]) -> None:
    for node in draft.nodes.values():
        slot = node.within if isinstance(node, RetrievalNode) else None
        if slot is None or slot in draft.indexed:
            continue
        if slot not in writers or not isinstance(draft.nodes[writers[slot]], DocumentsNode):
            raise WorkflowError(
                f"retrieval node {node.id!r}: within={slot!r} must be the output of an "
                "add_documents node, in a function what rag.index gave"
            )


def _check_extractions(draft: Draft, writers: Mapping[str, NodeId]) -> None:
    """Refuse slots that never hold passages; those of tools, joins and other inputs may."""
    for node in draft.nodes.values():
        if not isinstance(node, ExtractionNode):
            continue
        writer = draft.nodes[writers[node.passages]] if node.passages in writers else None
        if node.passages == QUESTION or isinstance(writer, WITHOUT_PASSAGES):
            raise WorkflowError(
                f"extraction node {node.id!r}: slot {node.passages!r} holds no passages; name that "
                "of a retrieval"
            )


def _with_data_edges(draft: Draft, writers: Mapping[str, NodeId], loops: bool) -> frozenset[Edge]:
    edges = set(draft.edges)
    for node in draft.nodes.values():
        for slot in node.reads:
            if slot in draft.inputs:
                continue
            if slot not in writers:
                known = ", ".join(sorted([*writers, *draft.inputs, "input"]))
                raise WorkflowError(
                    f"node {node.id!r} reads {{{slot}}}, which nothing writes; known: {known}"
                )
            if not _is_jumped_to(draft, writers[slot], node.id):
                _add_data_edge(edges, writers[slot], node, slot, loops)
    return frozenset(edges)


def _is_jumped_to(draft: Draft, writer: NodeId, reader: NodeId) -> bool:
    """Whether only a callable edge after the writer leads to the reader.

    A data edge would then run the reader even where the callable leads elsewhere.
    """

    def drawn(node: NodeId) -> list[NodeId]:
        return _after(draft.edges, node)

    if reader in reachable(draft.starts or (writer,), drawn):
        return False
    after_writer = reachable([writer], drawn)
    return any(
        source in after_writer and (targets is None or reader in targets)
        for source, _, targets in draft.branches
    )


def _add_data_edge(edges: set[Edge], writer: NodeId, node: Node, slot: str, loops: bool) -> None:
    if writer not in reachable([node.id], lambda n: _after(edges, n)):
        edges.add((writer, node.id))
    elif not loops:
        raise WorkflowError(
            f"node {node.id!r} reads {{{slot}}} before node {writer!r} writes it; "
            "reverse the edge, or loop with a callable edge"
        )
    # Else the reader comes before the writer in a loop: it reads the turn before, first empty.


def _check_no_static_loop(draft: Draft, edges: frozenset[Edge]) -> None:
    ordered = set(static_order(draft.nodes, edges))
    looping = [n for n in draft.nodes if n not in ordered]
    if looping:
        raise WorkflowError(
            f"node {looping[0]!r} is on a loop that never ends; "
            "close the loop with a callable edge that can return END"
        )


def _entries(draft: Draft, edges: frozenset[Edge]) -> tuple[NodeId, ...]:
    if draft.starts:
        return tuple(dict.fromkeys(draft.starts))
    targets = {target for _, target in edges}
    free = tuple(n for n in draft.nodes if n not in targets)
    if draft.is_drawn and len(free) > 1:
        raise WorkflowError(
            f"nodes {', '.join(map(repr, free))} have no edge into them; "
            "say with add_edge(START, node) where the workflow starts"
        )
    return free


def _outputs(draft: Draft, edges: frozenset[Edge]) -> frozenset[NodeId]:
    branching = {source for source, _, _ in draft.branches}
    sources = {source for source, _ in edges}
    if draft.ends:
        return frozenset(draft.ends) | branching
    if draft.branches or not draft.is_drawn:
        return frozenset(n for n in draft.nodes if n not in sources) | branching
    return frozenset()


def _check_reachable(
    draft: Draft,
    edges: frozenset[Edge],
    branches: tuple[Branch, ...],
    entries: tuple[NodeId, ...],
) -> None:
    jumps = {branch.source: branch.targets for branch in branches}
    seen = reachable(entries, lambda n: [*_after(edges, n), *jumps.get(n, ())])
    for node in draft.nodes:
        if node not in seen:
            raise WorkflowError(f"node {node!r} can't be reached from START; add an edge to it")


def _check_end(
    draft: Draft,
    edges: frozenset[Edge],
    branches: tuple[Branch, ...],
    outputs: frozenset[NodeId],
) -> None:
    ending = outputs | {branch.source for branch in branches}
    for node in draft.nodes:
        if not reachable([node], lambda n: _after(edges, n)) & ending:
            raise WorkflowError(f"node {node!r} has no way to END; add an edge to END after it")


def _list_slots(
    draft: Draft, edges: frozenset[Edge], writers: Mapping[str, NodeId]
) -> dict[str, frozenset[NodeId]]:
    """Slots that a loop consumes one item a turn, each with its consuming readers.

    A loop may re-enter a reader that comes before a callable edge. Where that does not run the
    writer again, every turn would see the same value: so the turns share its items out.
    """
    loops: dict[str, frozenset[NodeId]] = {}
    after_each = {key: reachable([key], lambda n: _after(edges, n)) for key in draft.nodes}
    for slot, writer in writers.items():
        consumers = set()
        for node in draft.nodes.values():
            if slot in node.reads and _may_re_enter(draft, node.id, writer, after_each):
                consumers.add(node.id)
        kind = draft.nodes[writer]
        if consumers and isinstance(kind, GenerationNode) and kind.parse is not Parse.TEXT:
            loops[slot] = frozenset(consumers)
    return loops


def _may_re_enter(
    draft: Draft, reader: NodeId, writer: NodeId, after_each: Mapping[NodeId, set[NodeId]]
) -> bool:
    """Whether a callable edge after a reader may lead to it again, and not by way of the writer."""
    return any(
        reader in after_each[target] and writer not in after_each[target]
        for source, _, targets in draft.branches
        if source in after_each[reader]
        for target in (draft.nodes if targets is None else targets)
    )


def _with_parse(node: Node, list_slots: Mapping[str, frozenset[NodeId]]) -> Node:
    if not isinstance(node, GenerationNode) or node.parse is not Parse.AUTO:
        return node
    return replace(node, parse=Parse.LINES if node.output in list_slots else Parse.TEXT)
