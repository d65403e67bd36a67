"""Own passes and engines: sorted by kind, refused with the name of the field."""

from types import SimpleNamespace

import pytest

from heddle.app.extensions import Extensions, OwnEngine
from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES, CyclePass, GraphPass
from tests.helpers.echo_engine import EchoEngine, EchoSettings
from tests.helpers.fake_ports import FakePort


class Rewrite(GraphPass):
    name = "rewrite"

    def apply(self, graph):
        return None


class Look(CyclePass):
    name = "look"

    def apply(self, view):
        return ()


def named(one, **fields):
    for name, value in fields.items():
        setattr(one, name, value)
    return one


def engine(**fields):
    one = EchoEngine("echo", 1, EchoSettings())
    one.kinds = frozenset({PrimitiveKind.RERANKING})
    return named(one, **fields)


def port(kinds=frozenset({PrimitiveKind.TOOL}), **fields):
    return named(FakePort("own", kinds), **fields)


def test_they_are_sorted_by_kind_and_stand_behind_heddle_s():
    rewrite, look, own, stepped = Rewrite(), Look(), port(), engine()
    found = Extensions.of([look, rewrite], [own, OwnEngine(stepped, 3)])
    assert found == Extensions((rewrite,), (look,), (own,), (OwnEngine(stepped, 3),))
    assert found.all_graph_passes == (*GRAPH_PASSES, rewrite)
    assert found.all_cycle_passes == (*CYCLE_PASSES, look)
    assert {rewrite, look} < set(found.all_passes)
    assert Extensions.of([], [stepped]).engines == (OwnEngine(stepped),)


class NoMethod(GraphPass):
    name = "no_method"


class LooksLikeBoth:
    name = "both"

    def apply(self, graph):
        return None


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Rewrite, r"passes\[0\] is a class: give an object, Rewrite\(\)"),
        (SimpleNamespace(), r"passes\[0\].name must be a plain name .* got None"),
        (named(Rewrite(), name="my pass"), r"passes\[0\].name must be a plain name"),
        (named(Rewrite(), name="split_prefill"), r"passes\[0\].name: 'split_prefill' is taken"),
        (LooksLikeBoth(), r"passes\[0\] is LooksLikeBoth: write it as .*heddle.GraphPass"),
        (NoMethod(), r"passes\[0\] is NoMethod: .* method apply"),
    ],
)
def test_a_pass_that_can_t_be_used_is_refused(one, words):
    with pytest.raises(ConfigError, match=words):
        Extensions.of([one])


def test_two_of_a_name_are_refused():
    with pytest.raises(ConfigError, match=r"passes\[1\].name: 'rewrite' is taken"):
        Extensions.of([Rewrite(), Rewrite()])
    with pytest.raises(ConfigError, match=r"engines\[1\].name: 'echo' is taken"):
        Extensions.of([], [engine(), engine()])


class AsksByMethod(EchoEngine):
    def has_work(self):
        return False


LLM = frozenset({PrimitiveKind.PREFILLING})


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (engine(name=""), r"engines\[0\].name must be"),
        (engine(kinds={PrimitiveKind.TOOL}), r"engines\[0\].kinds must be a frozenset"),
        (engine(kinds=LLM), r"kinds has PREFILLING; .* TOOL\. A model that writes is"),
        (engine(kinds=frozenset({"tool"})), r"engines\[0\].kinds has tool"),
        (engine(step=None), r"engines\[0\].step is missing: an engine has"),
        (AsksByMethod("echo", 1, EchoSettings()), r"engines\[0\].has_work must be a property"),
        (OwnEngine(engine(), 0), r"engines\[0\].credits_total must be an integer from 1 to 4096"),
        (OwnEngine(engine(), True), r"engines\[0\].credits_total must be"),
        (port(credits=64), r"engines\[0\].credits must be a Credits, got 64"),
        (port(epoch="1"), r"engines\[0\].epoch must be an integer"),
        (SimpleNamespace(name="x", kinds=frozenset({PrimitiveKind.TOOL})), "has_work is missing"),
    ],
)
def test_an_engine_that_can_t_be_used_is_refused(one, words):
    with pytest.raises(ConfigError, match=words):
        Extensions.of([], [one])
