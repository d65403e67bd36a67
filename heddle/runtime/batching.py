"""Which waiting primitives go to an engine next. (Teola §5.2, Algorithm 2)"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from heddle.core.call_order import FirstServed
from heddle.core.errors import ConfigError


@dataclass(slots=True)
class Pending:
    """One primitive that waits for an engine, with the rows it still has to place.

    `is_splittable` rows may be placed in several goes; others all at once. `bucket` is the first
    request of its run; 0 = its own.
    """

    request_id: int
    primitive: str
    depth: int
    rows: int
    arrival_s: float
    priority: int = 1
    is_splittable: bool = False
    bucket: int = 0

    @property
    def age(self) -> int:
        """By which those of one run stand together, the oldest first."""
        return self.bucket or self.request_id


class Take(NamedTuple):
    """Send `rows` rows of one primitive now."""

    request_id: int
    primitive: str
    rows: int


Policy = Callable[[Sequence[Pending], int, int], tuple[Take, ...]]


def topology_aware(
    pending: Sequence[Pending], rows_free: int, rows_in_flight: int
) -> tuple[Take, ...]:
    """Fill the free rows: oldest request first, its deepest primitives before its shallow ones.

    Source: Teola §5.2, Algorithm 2.
    Deviates: work-conserving. Shallower primitives fill the rows that the deepest of all
        requests leave free; as printed (`algorithm2_strict`) those rows would idle.
    """
    order = by_bucket(pending)
    deepest = _deepest(order)
    takes, left = _fill(deepest, rows_free)
    was_cut = len(takes) < len(deepest) or any(
        take.rows < primitive.rows for take, primitive in zip(takes, deepest, strict=True)
    )
    if was_cut or len(deepest) == len(order):
        return takes
    first = set(map(id, deepest))
    more, _ = _fill([p for p in order if id(p) not in first], left)
    return (*takes, *more)


def algorithm2_strict(
    pending: Sequence[Pending], rows_free: int, rows_in_flight: int
) -> tuple[Take, ...]:
    """Take only each request's deepest primitives, even when rows stay free."""
    return _fill(_deepest(by_bucket(pending)), rows_free)[0]


def blind(pending: Sequence[Pending], rows_free: int, rows_in_flight: int) -> tuple[Take, ...]:
    """Take primitives as they came. (Teola §5.2, the strawman; its baseline TO)"""
    order = sorted(pending, key=lambda p: (p.arrival_s, p.request_id, p.primitive))
    return _fill(order, rows_free)[0]


def per_invocation(
    pending: Sequence[Pending], rows_free: int, rows_in_flight: int
) -> tuple[Take, ...]:
    """Take one primitive's rows as a bundle, when the engine is idle. (Teola §7, baseline PO)

    Background primitives have no rows, and delay no other primitive.
    """
    if rows_in_flight or not pending:
        return ()
    first = min(pending, key=lambda p: (p.arrival_s, p.request_id, p.primitive))
    return _fill([first], rows_free)[0]


POLICIES: Final[Mapping[str, Policy]] = {
    "shortest_first": topology_aware,  # what the engines have room for goes in any order of ours
    "topology_aware": topology_aware,
    "algorithm2_strict": algorithm2_strict,
    "blind": blind,
    "per_invocation": per_invocation,
}


FIRST_SERVED: Final[Mapping[str, FirstServed]] = {
    "shortest_first": FirstServed.SHORTEST,
    "topology_aware": FirstServed.REQUEST,
    "algorithm2_strict": FirstServed.REQUEST,
    "blind": FirstServed.ARRIVAL,
    "per_invocation": FirstServed.ARRIVAL,
}
"""Whose call an engine serves first under each policy: credits let most queues form there."""


def policy_named(name: str) -> Policy:
    """Return a batching policy.

    Raises:
        ConfigError: no such policy.
    """
    if name not in POLICIES:
        raise ConfigError(f"batching must be one of {', '.join(POLICIES)}, got {name!r}")
    return POLICIES[name]


def _fill(order: Sequence[Pending], rows_free: int) -> tuple[tuple[Take, ...], int]:
    takes = []
    for primitive in order:
        if rows_free <= 0:
            break
        if primitive.rows <= rows_free or primitive.is_splittable:
            rows = min(primitive.rows, rows_free)
            takes.append(Take(primitive.request_id, primitive.primitive, rows))
            rows_free -= rows
        else:
            break  # what doesn't fit holds its place: smaller ones behind it must not starve it
    return tuple(takes), rows_free


def by_bucket(pending: Sequence[Pending]) -> Sequence[Pending]:
    """Urgent classes first, then the oldest request, deepest primitives first."""
    if len(pending) == 1:
        return pending
    rank: dict[int, tuple[int, float]] = {}
    for primitive in pending:
        own = primitive.priority, primitive.arrival_s
        known = rank.get(primitive.age)
        if known is None or own < known:
            rank[primitive.age] = own
    # The request id breaks ties, so equal arrival times replay in the same order.
    return sorted(pending, key=lambda p: (rank[p.age], p.age, -p.depth, p.request_id, p.primitive))


def _deepest(order: Sequence[Pending]) -> list[Pending]:
    """Return each request's deepest primitives; within a request the deepest come first."""
    depth_max: dict[int, int] = {}
    return [p for p in order if p.depth == depth_max.setdefault(p.age, p.depth)]
