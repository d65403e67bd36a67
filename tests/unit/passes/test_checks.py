"""What passes return is checked: lost values and effects, edits that nothing could follow."""

from dataclasses import replace

import pytest

from heddle.core.errors import InternalError
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import PGraph, data_edges
from heddle.graph.primitive import ConditionConfig, EmbedConfig, Primitive
from heddle.passes.checks import check_edits, check_rewrite
from heddle.passes.cycle_view import CycleView, SetBudget


def primitive(name, reads=(), writes=(), config=None):
    return Primitive(name, PrimitiveKind.EMBEDDING, name, reads, writes, config or EmbedConfig(()))


def graph_of(*primitives):
    return PGraph(primitives, data_edges(primitives))


FIRST = primitive("a", writes=("k",))
SECOND = primitive("b", reads=("k",), writes=("m",))
EFFECT = primitive("c", reads=("m",), config=ConditionConfig(len, (), 1))
GRAPH = graph_of(FIRST, SECOND, EFFECT)
VIEW = CycleView(0.0, (), {"llm": None, "vector": None})


def test_a_rewrite_that_keeps_values_and_effects_is_returned():
    both = replace(FIRST, name="ab", writes=("k", "m"))
    merged = graph_of(both, EFFECT)
    assert check_rewrite(GRAPH, merged) is merged


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([FIRST], "returned list: return a PGraph"),
        (GRAPH.with_edges(()), "without a data edge"),
        (graph_of(FIRST), "no primitive writes 'm' any more"),
        (graph_of(FIRST, SECOND), "'c' has an effect: keep it"),
    ],
)
def test_a_rewrite_that_loses_something_is_refused(after, words):
    with pytest.raises(InternalError, match=words):
        check_rewrite(GRAPH, after)


def test_edits_are_returned():
    edits = [SetBudget("llm", 0.1, 0.0), SetBudget("vector", float("inf"), 0.2)]
    assert check_edits(edits, VIEW) == tuple(edits)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        (None, "returned NoneType: return a tuple"),
        (("stop",), "'stop' is no edit"),
        ((SetBudget("gpu", 0.1, 0.0),), "engine is 'gpu'; there are llm, vector"),
        ((SetBudget("llm", 0.1, "much"),), "gain_s must be a number, got 'much'"),
        ((SetBudget("llm", float("nan"), 0.0),), "budget_s must be a number"),
        ((SetBudget("llm", 0.0, 0.0),), "budget_s must be above 0"),
    ],
)
def test_an_edit_that_nothing_could_follow_is_refused(edits, words):
    with pytest.raises(InternalError, match=words):
        check_edits(edits, VIEW)
