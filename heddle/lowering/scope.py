"""Which key holds each slot's newest value as regions are lowered one after another."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from heddle.workflow.nodes import NodeId

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Scope:
    """Frozen and hashable, so a lowered region can be cached by it.

    `keys` maps a slot to its newest key; `turns` counts how often a node has been lowered;
    `taken` counts the items of a list slot that earlier turns consumed.
    """

    keys: tuple[tuple[str, str], ...] = ()
    turns: tuple[tuple[NodeId, int], ...] = ()
    taken: tuple[tuple[str, int], ...] = ()

    def key_of(self, slot: str) -> str | None:
        """Return the newest key of a slot, None before its first write."""
        return dict(self.keys).get(slot)

    def turn_of(self, node: NodeId) -> int:
        """Return how often a node has been lowered."""
        return dict(self.turns).get(node, 0)

    def taken_of(self, slot: str) -> int:
        """Return how many items of a list slot are consumed."""
        return dict(self.taken).get(slot, 0)

    def with_key(self, slot: str, key: str) -> "Scope":
        """Return the scope after a write of a slot."""
        return replace(self, keys=_put(self.keys, slot, key))

    def with_turn(self, node: NodeId) -> "Scope":
        """Return the scope after one more lowering of a node."""
        return replace(self, turns=_put(self.turns, node, self.turn_of(node) + 1))

    def with_taken(self, slot: str, count: int) -> "Scope":
        """Return the scope after `count` items of a slot are consumed."""
        return replace(self, taken=_put(self.taken, slot, count))


def initial_scope(inputs: Mapping[str, object]) -> Scope:
    """Return the scope of a request that has only its inputs."""
    return Scope(keys=tuple(sorted((slot, input_key(slot)) for slot in inputs)))


def input_key(slot: str) -> str:
    """Return the object store's key of an input."""
    return f"{slot}@input"


def _put(pairs: tuple[tuple[K, V], ...], key: K, value: V) -> tuple[tuple[K, V], ...]:
    return tuple(sorted({**dict(pairs), key: value}.items(), key=lambda pair: str(pair[0])))
