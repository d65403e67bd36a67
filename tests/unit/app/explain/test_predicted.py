"""Predicted lengths of graphs: the longest way, items on their way, and what isn't known."""

import pytest

from heddle.app.explain.predicted import StageLengths
from heddle.core.primitives import PrimitiveKind as Kind
from heddle.exporters.stage_table import StageRow
from heddle.graph.pgraph import Edge, EdgeKind, PGraph
from heddle.graph.primitive import EmbedConfig, Primitive

LENGTHS = StageLengths(
    {"embedding": 1.0, "searching": 3.0, "decoding": 4.0}, rows={"embed@0": 4, "search@0": 4}
)


def primitive(name: str, kind: Kind) -> Primitive:
    return Primitive(name, kind, name.partition("@")[0], (), (), EmbedConfig(()))


WRITE = primitive("write@0", Kind.DECODING)
EMBED, OTHER = primitive("embed@0", Kind.EMBEDDING), primitive("other@0", Kind.EMBEDDING)
SEARCH, JOIN = primitive("search@0", Kind.SEARCHING), primitive("join@0", Kind.AGGREGATE)


def graph(*primitives: Primitive, **pairs: str) -> PGraph:
    """Return a graph; `pairs` are edges "a->b" by kind, separated by spaces."""
    edges = {
        Edge(f"{pair.split('>')[0]}@0", f"{pair.split('>')[1]}@0", EdgeKind(kind))
        for kind, written in pairs.items()
        for pair in written.split()
    }
    return PGraph(primitives, frozenset(edges))


def test_the_longest_way_counts():
    drawn = graph(EMBED, OTHER, SEARCH, data="embed>search")
    assert LENGTHS.critical_path_s(drawn) == 4.0


def test_an_edge_of_order_alone_makes_a_way_longer():
    drawn = graph(EMBED, SEARCH, order="embed>search")
    assert LENGTHS.critical_path_s(drawn) == 4.0
    assert LENGTHS.critical_path_s(drawn.with_edges(())) == 3.0


def test_what_the_runtime_does_itself_takes_nothing():
    assert LENGTHS.critical_path_s(graph(EMBED, JOIN, data="embed>join")) == 1.0


def test_an_empty_graph_takes_nothing():
    assert LENGTHS.critical_path_s(PGraph((), frozenset())) == 0.0


def test_one_of_a_kind_that_was_never_measured_makes_it_unknown():
    tool = primitive("tool@0", Kind.TOOL)
    assert LENGTHS.critical_path_s(graph(EMBED, tool, data="embed>tool")) is None


def test_a_measured_name_goes_before_its_kind():
    lengths = StageLengths({"embedding": 1.0}, {"embed@0": 0.25})
    assert lengths.critical_path_s(graph(EMBED)) == 0.25
    assert lengths.critical_path_s(graph(OTHER)) == 1.0


def test_a_reader_of_items_ends_its_last_part_after_the_list():
    drawn = graph(WRITE, EMBED, data="write>embed", items="write>embed")
    assert LENGTHS.critical_path_s(drawn) == 4.0 + 1.0 / 4


def test_a_slow_reader_of_items_is_as_long_as_itself_from_the_first_item_on():
    lengths = StageLengths({"decoding": 4.0, "embedding": 20.0}, rows={"embed@0": 4})
    drawn = graph(WRITE, EMBED, data="write>embed", items="write>embed")
    assert lengths.critical_path_s(drawn) == 1.0 + 20.0


def test_items_go_on_along_a_chain():
    pairs = "write>embed embed>search search>join"
    drawn = graph(WRITE, EMBED, SEARCH, JOIN, data=pairs, items=pairs)
    # The first item: written at 1, embedded at 1.25; the last search ends behind the list.
    assert LENGTHS.critical_path_s(drawn) == pytest.approx(4.0 + 0.25 + 0.75)
    assert LENGTHS.critical_path_s(graph(WRITE, EMBED, SEARCH, JOIN, data=pairs)) == 8.0


def test_a_list_whose_items_were_never_counted_makes_it_unknown():
    lengths = StageLengths(LENGTHS.by_kind)
    assert lengths.critical_path_s(graph(WRITE, EMBED, items="write>embed")) is None


def row(name: str, kind: str, ran_s: float, computed_s: float | None) -> StageRow:
    return StageRow(name, "engine", kind, 2, 0.0, ran_s, 0.5, computed_s, None, 1)


def test_lengths_of_a_table_are_medians_by_kind_and_more_than_a_hidden_tail():
    rows = [row("a@0", "embedding", 1.0, None), row("b@0", "embedding", 0.0, 3.0)]
    lengths = StageLengths.of(rows)
    assert lengths.by_name == {"a@0": 1.0, "b@0": 3.0}
    assert lengths.by_kind == {"embedding": 2.0}
    assert lengths.rows == {"a@0": 2, "b@0": 2}
