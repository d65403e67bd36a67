"""A rewrite that loses a value or an effect is refused."""

from dataclasses import replace

import pytest

from heddle.core.errors import InternalError
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import PGraph, data_edges
from heddle.graph.primitive import ConditionConfig, EmbedConfig, Primitive
from heddle.passes.rewrite_check import check_rewrite


def primitive(name, reads=(), writes=(), config=None):
    return Primitive(name, PrimitiveKind.EMBEDDING, name, reads, writes, config or EmbedConfig(()))


def graph_of(*primitives):
    return PGraph(primitives, data_edges(primitives))


FIRST = primitive("a", writes=("k",))
SECOND = primitive("b", reads=("k",), writes=("m",))
EFFECT = primitive("c", reads=("m",), config=ConditionConfig(len, (), 1))
GRAPH = graph_of(FIRST, SECOND, EFFECT)


def test_a_rewrite_that_keeps_values_and_effects_is_returned():
    both = replace(FIRST, name="ab@0", writes=("k", "m"))
    before = graph_of(FIRST, replace(SECOND, node="a"), EFFECT)
    merged = graph_of(both, EFFECT)
    assert check_rewrite(before, merged) is merged


def test_a_new_primitive_may_read_what_the_graph_read_from_outside():
    before = PGraph((FIRST,), frozenset(), frozenset({"query@input"}))
    reader = primitive("a.again@0", reads=("query@input",), writes=("n",))
    after = replace(before, primitives=(FIRST, reader))
    assert check_rewrite(before, after) is after


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([FIRST], "returned list: return a PGraph"),
        (GRAPH.with_edges(()), "without a data edge"),
        (graph_of(FIRST), "no primitive writes 'm' any more"),
        (graph_of(FIRST, SECOND), "'c' has an effect: keep it"),
        (
            graph_of(replace(FIRST, writes=("k", "m")), EFFECT),
            "node 'b' has no primitive any more: keep its last one",
        ),
        (
            replace(GRAPH, inputs=frozenset({"lost@0"})),
            "inputs has 'lost@0', which the graph before had not",
        ),
        *(
            (
                graph_of(FIRST, SECOND, EFFECT, primitive(name, writes=("n",))),
                f"primitive '{name}' must end in @ and the turn of its node",
            )
            for name in ("d", "d@", "d@first", "d@-1")
        ),
    ],
)
def test_a_rewrite_that_loses_something_is_refused(after, words):
    with pytest.raises(InternalError, match=words):
        check_rewrite(GRAPH, after)
