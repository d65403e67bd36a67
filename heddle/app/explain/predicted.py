"""How long a graph should take, by what its stages took before."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heddle.core.primitives import PrimitiveKind
from heddle.exporters.stage_table import StageRow
from heddle.graph.pgraph import EdgeKind, PGraph, topological_order
from heddle.graph.primitive import Primitive


@dataclass(frozen=True, slots=True)
class StageLengths:
    """What stages take when nothing else runs [s].

    Args:
        by_kind: means of each kind of primitive, for those that were not measured by name.
        by_name: of single primitives.
        rows: texts or queries of single primitives.
    """

    by_kind: Mapping[str, float] = field(default_factory=dict)
    by_name: Mapping[str, float] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[StageRow]) -> "StageLengths":
        """Return the lengths that a table has measured."""
        by_name = {row.name: _length_s(row) for row in rows}
        kinds: dict[str, list[float]] = {}
        for row in rows:
            kinds.setdefault(row.kind, []).append(by_name[row.name])
        by_kind = {kind: statistics.median(lengths) for kind, lengths in kinds.items()}
        return cls(by_kind, by_name, {row.name: row.rows for row in rows})

    def length_s(self, primitive: Primitive) -> float | None:
        """Return how long a primitive takes; None = not measured [s].

        What the runtime itself carries out counts as nothing.
        """
        if primitive.kind.is_control:
            return 0.0
        return self.by_name.get(primitive.name, self.by_kind.get(primitive.kind.value))

    def critical_path_s(self, graph: PGraph) -> float | None:
        """Return the length of the longest way through a graph [s].

        What may begin with the first of n items starts once that is there, and ends the n-th part
        of its own length after the last one. This is the most that it can gain: its engine may have
        other work, or cost more for single items than for all of them at once.

        None where a stage's length, or the number of a list's items, isn't known.
        """
        by_name, counts = graph.by_name(), self._item_counts(graph)
        pairs = {(e.producer, e.consumer) for e in graph.edges}
        item_pairs = {(e.producer, e.consumer) for e in graph.edges if e.kind is EdgeKind.ITEMS}
        first_s: dict[str, float] = {}
        done_s: dict[str, float] = {}
        for name in topological_order(graph):
            length_s, count = self.length_s(by_name[name]), counts.get(name, 1)
            if length_s is None or count == 0:
                return None
            whole = [p for p, c in pairs - item_pairs if c == name]
            in_items = [p for p, c in item_pairs if c == name]
            start_s = max([0.0, *(done_s[p] for p in whole), *(first_s[p] for p in in_items)])
            last_s = max([0.0, *(done_s[p] for p in in_items)])
            first_s[name] = start_s + length_s / count
            done_s[name] = max(start_s + length_s, last_s + length_s / count)
        return max(done_s.values(), default=0.0)

    def _item_counts(self, graph: PGraph) -> dict[str, int]:
        """Return of each primitive on an edge of items how many these are; 0 = not known.

        The number is that of the texts or queries of any primitive along these edges.
        """
        counts: dict[str, int] = {}
        edges = [e for e in graph.edges if e.kind is EdgeKind.ITEMS]
        for edge in edges:
            for name in (edge.producer, edge.consumer):
                counts[name] = self._rows_of(graph, name)
        for _ in edges:  # as often as the longest chain of them
            for edge in edges:
                most = max(counts[edge.producer], counts[edge.consumer])
                counts[edge.producer] = counts[edge.consumer] = most
        return counts

    def _rows_of(self, graph: PGraph, name: str) -> int:
        kind = graph.by_name()[name].kind
        has_rows = kind in (PrimitiveKind.EMBEDDING, PrimitiveKind.SEARCHING)
        return self.rows.get(name, 0) if has_rows else 0


def _length_s(row: StageRow) -> float:
    """Return a stage's length [s]; of one that ran beside its producer, `ran_s` is but the tail."""
    return max(row.ran_s, row.computed_s or 0.0)
