"""A compiled workflow: what RAGraph.compile() returns. Frozen and shared by all requests."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heddle.workflow.nodes import Node, NodeId

State = Mapping[str, Any]
Chooser = Callable[[State], object]
Function = Callable[..., Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Branch:
    """A callable edge: after `source`, `choose(state)` names the next node or END."""

    source: NodeId
    choose: Chooser
    targets: tuple[NodeId, ...]  # the nodes it may name, END apart


class Content:
    """A value whose hash is computed once, as that of a whole workflow takes long.

    Raises: TypeError, when its hash is asked for: a part of it has none.
    """

    __slots__ = ("_hash", "_value")

    def __init__(self, value: Hashable) -> None:
        self._value = value
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Content) and self._value == other._value

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._value)
        return self._hash


@dataclass(frozen=True)
class Workflow:
    """Nodes, the static edges between them, and callable edges.

    `edges` holds declared edges and those that follow from data; `entries` start a request;
    `outputs` may be followed by END. `list_slots` maps a slot that a loop consumes to the nodes
    that take one item of it a turn. Where a `function` makes the workflow as it runs, `change` is
    applied to each part of it. Nothing that is made of it
    outlives its request unless it `is_kept`.
    """

    name: str
    nodes: Mapping[NodeId, Node]
    edges: frozenset[tuple[NodeId, NodeId]]
    branches: tuple[Branch, ...]
    entries: tuple[NodeId, ...]
    outputs: frozenset[NodeId]
    writers: Mapping[str, NodeId]
    list_slots: Mapping[str, frozenset[NodeId]]
    inputs: frozenset[str]
    max_steps: int
    function: Function | None = None
    change: "Callable[[Workflow], Workflow] | None" = None
    is_kept: bool = True

    @cached_property
    def content(self) -> "Content":
        """All that its answers depend on: equal for workflows that were built alike."""
        nodes = tuple(self.nodes.items())
        ends = (self.entries, self.outputs, self.max_steps)
        return Content((self.name, nodes, self.edges, self.branches, self.inputs, *ends))

    @cached_property
    def successors(self) -> Mapping[NodeId, tuple[NodeId, ...]]:
        """Static successors of every node, in the order the nodes were added."""
        return {n: tuple(m for m in self.nodes if (n, m) in self.edges) for n in self.nodes}

    @cached_property
    def branch_of(self) -> Mapping[NodeId, Branch]:
        """The callable edge that leaves a node."""
        return {branch.source: branch for branch in self.branches}

    @cached_property
    def depth_after(self) -> Mapping[NodeId, int]:
        """Nodes still to come after each node, at most: one loop turn counts once. (Teola §5.2)"""
        upwards = static_order(self.nodes, self.edges)[::-1]
        below: dict[NodeId, int] = {}
        for node in upwards:
            below[node] = max((below[after] + 1 for after in self.successors[node]), default=0)
        for branch in self.branches:
            turn = max((below[t] + 1 for t in branch.targets), default=0)
            below[branch.source] = max(below[branch.source], turn)
        # Ancestors of a branch see past it: one more relaxation along the static order.
        for node in upwards:
            for after in self.successors[node]:
                below[node] = max(below[node], below[after] + 1)
        return below


def static_order(
    nodes: Mapping[NodeId, Node], edges: frozenset[tuple[NodeId, NodeId]]
) -> list[NodeId]:
    """Return the nodes in topological order of the static edges; nodes on a cycle are missing."""
    waiting = dict.fromkeys(nodes, 0)
    after: dict[NodeId, list[NodeId]] = {n: [] for n in nodes}
    for source, target in sorted(edges, key=str):
        after[source].append(target)
        waiting[target] += 1
    ready = [n for n, count in waiting.items() if count == 0]
    order: list[NodeId] = []
    while ready:
        node = ready.pop(0)
        order.append(node)
        for target in after[node]:
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return order
