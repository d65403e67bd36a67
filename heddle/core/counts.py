"""Counters: each is one field of a dataclass, which says what is counted and how it adds up.

The receipt, its JSON, `/metrics`, traces, texts, the page and the reference all read it from there:
a new counter is one field here or in `runtime/receipt.py`, and the place that counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache
from typing import Any, Final, Self

_KEY: Final = "counter"  # of a field's metadata


class Unit(Enum):
    """The unit of a counter."""

    PIECES = ""
    BYTES = "bytes"
    SECONDS = "s"


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter, as its field declares it.

    Args:
        name: of its field, in Python and in JSON.
        meaning: what is counted, in words that stand alone.
        metric: its name in Prometheus, without the suffix `_total`.
        unit: of its values.
        is_longest: of parts that ran at once, as the shards of an index do, the largest counts and
            not the sum.
        by_pass: it counts what a pass of the optimizer saved or began early.
    """

    name: str
    meaning: str
    metric: str
    unit: Unit
    is_longest: bool
    by_pass: bool

    @property
    def sentence(self) -> str:
        """What is counted, as a sentence."""
        return f"{self.meaning[0].upper()}{self.meaning[1:]}."

    def line(self, value: float) -> str:
        """Return its meaning with a count."""
        shown = f"{value:.3f}" if self.unit is Unit.SECONDS else f"{value:,}"
        return f"{self.meaning}: {shown} {self.unit.value}".rstrip()


def counter(
    meaning: str,
    *,
    metric: str = "",
    unit: Unit = Unit.PIECES,
    is_longest: bool = False,
    by_pass: bool = False,
) -> Any:  # noqa: ANN401 - a field, which type checkers take for its value
    """Declare a counter as a field of a subclass of `Counts`; the arguments are those of `Counter`.

    The metric is "heddle_" and the field's name, where none is given.
    """
    zero: float = 0.0 if unit is Unit.SECONDS else 0
    about = Counter("", meaning, metric, unit, is_longest, by_pass)
    return field(default=zero, metadata={_KEY: about})


@dataclass(slots=True)
class Counts:
    """Counters that add up. A count is a plain attribute: `counts.lists_scanned += 3`."""

    def add(self, other: "Counts") -> None:
        """Add what was counted after this; all its counters must be here as well."""
        for one in counters(type(other)):
            if value := getattr(other, one.name):
                setattr(self, one.name, getattr(self, one.name) + value)

    def counted(self) -> Iterator[tuple[Counter, float]]:
        """Yield the counters that are not 0, each with its count."""
        for one in counters(type(self)):
            if value := getattr(self, one.name):
                yield one, value

    @classmethod
    def at_once(cls, parts: Sequence[Self]) -> Self:
        """Return the counts of parts that ran at once; nothing where there are none."""
        whole = cls()
        for part in parts:
            for one, value in part.counted():
                so_far = getattr(whole, one.name)
                setattr(whole, one.name, max(so_far, value) if one.is_longest else so_far + value)
        return whole


@dataclass(slots=True)
class SearchCounts(Counts):
    """What one search took; an engine reports it with the hits."""

    lists_probed: int = counter(
        "clusters of the index that searches planned to scan", metric="heddle_index_lists_probed"
    )
    lists_scanned: int = counter(
        "clusters of the index that searches scanned", metric="heddle_index_lists_scanned"
    )
    lists_on_device: int = counter(
        "clusters scanned on a device beside the host (hot clusters)",
        metric="heddle_index_lists_on_device",
    )
    nodes_opened: int = counter(
        "nodes that searches of a graph opened", metric="heddle_graph_nodes_opened"
    )
    hits_cached: int = counter(
        "hits that an earlier search of the same request had found",
        metric="heddle_search_hits_cached",
    )
    searches_parked: int = counter(
        "times that a search gave its slot of the vector pool to a more urgent one",
        metric="heddle_pool_parks",
    )
    search_wait_s: float = counter(
        "time that the vector pool held searches back",
        metric="heddle_pool_wait_seconds",
        unit=Unit.SECONDS,
        is_longest=True,
    )


def counters(kind: type[Counts]) -> tuple[Counter, ...]:
    """Return the counters of a class, in the order of its fields."""
    of_class: Any = kind  # whose instances have no hash, but it has one
    return _declared(of_class)


@cache
def _declared(kind: Any) -> tuple[Counter, ...]:  # noqa: ANN401 - a class, as a key
    found = ((one.name, one.metadata[_KEY]) for one in fields(kind) if _KEY in one.metadata)
    return tuple(
        replace(about, name=name, metric=about.metric or f"heddle_{name}") for name, about in found
    )
