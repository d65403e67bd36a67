"""The runner times, verifies, leaves out by name, and says when a pass fails."""

import logging

import pytest

from heddle.core.errors import ConfigError, InternalError
from heddle.core.frames import Load
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind, PGraph
from heddle.graph.primitive import EmbedConfig, Primitive
from heddle.passes.cycle_view import CycleView, EngineView, SetBudget
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES, CycleCount, PassRunner
from tests.helpers.fake_ports import ManualClock

VIEW = CycleView(0.0, (), {"a": None, "b": None})


def view_of(*engines):
    return CycleView(
        0.0,
        (),
        {n: EngineView(n, frozenset(), 0, 0, Load(), None, None, None) for n in engines},
    )


def primitive(name, reads=(), writes=()):
    return Primitive(name, PrimitiveKind.EMBEDDING, name, reads, writes, EmbedConfig(()))


DATA = Edge("a", "b", EdgeKind.DATA)
GRAPH = PGraph(
    (primitive("a", (), ("k",)), primitive("b", ("k",), ())),
    frozenset({DATA, Edge("a", "b", EdgeKind.ORDER)}),
)


class Rewrite:
    """A graph pass that calls `rewrite`."""

    def __init__(self, name, rewrite, clock=None):
        self.name, self._rewrite, self._clock = name, rewrite, clock

    def apply(self, graph):
        if self._clock is not None:
            self._clock.time_s += 0.5
        return self._rewrite(graph)


def crash(graph):
    raise KeyError("a bug")


def cut_data(graph):
    return graph.with_edges(())


def runner(*passes, **options):
    clock = options.pop("clock", ManualClock())
    return PassRunner(clock, graph_passes=passes, cycle_passes=(), **options)


class TestGraphPasses:
    def test_run_in_order_and_are_timed(self):
        clock = ManualClock()
        order = []
        passes = [
            Rewrite(name, lambda graph, name=name: order.append(name), clock) for name in "xyz"
        ]
        graph, records = runner(*passes, clock=clock).optimize(GRAPH)
        assert order == ["x", "y", "z"]
        assert graph is GRAPH
        assert [(r.name, r.changed, r.seconds) for r in records] == [
            (name, False, 0.5) for name in "xyz"
        ]

    def test_each_sees_what_the_one_before_left(self):
        pruned = GRAPH.with_edges({DATA})
        seen = []
        first = Rewrite("first", lambda graph: pruned)
        second = Rewrite("second", lambda graph: seen.append(graph))
        graph, records = runner(first, second).optimize(GRAPH)
        assert seen == [pruned]
        assert graph == pruned
        assert [record.changed for record in records] == [True, False]

    def test_one_left_out_by_name_doesn_t_run(self):
        disabled = frozenset({"bad"})
        graph, records = runner(Rewrite("bad", crash), disabled=disabled).optimize(GRAPH)
        assert (graph, records) == (GRAPH, ())

    @pytest.mark.parametrize("rewrite", [crash, cut_data])
    def test_a_failing_one_fails_loudly(self, rewrite):
        with pytest.raises(InternalError, match="pass 'bad' failed"):
            runner(Rewrite("bad", rewrite)).optimize(GRAPH)

    @pytest.mark.parametrize("rewrite", [crash, cut_data])
    def test_or_the_graph_before_it_is_kept_where_so_configured(self, rewrite):
        keeping = runner(Rewrite("bad", rewrite), on_failure="keep")
        graph, (record,) = keeping.optimize(GRAPH)
        assert graph is GRAPH
        assert not record.changed
        assert "pass 'bad' failed" in record.error
        assert keeping.failed == {"bad"}

    def test_one_that_can_says_why_it_changed_nothing(self):
        class Explained(Rewrite):
            def reason(self, graph):
                return f"{len(graph.primitives)} is enough"

        unchanged, changing = lambda graph: None, lambda graph: graph.with_edges({DATA})
        passes = Rewrite("x", unchanged), Explained("y", unchanged), Explained("z", changing)
        _, records = runner(*passes).optimize(GRAPH)
        assert [record.reason for record in records] == ["", "2 is enough", ""]

    def test_a_request_does_not_fail_for_want_of_words(self):
        class Confused(Rewrite):
            def reason(self, graph):
                raise KeyError("a bug")

        logging.disable(logging.CRITICAL)
        try:
            _, (record,) = runner(Confused("x", lambda graph: None)).optimize(GRAPH)
        finally:
            logging.disable(logging.NOTSET)
        assert (record.changed, record.reason, record.error) == (False, "", "")

    def test_a_failing_one_has_an_error_and_no_reason(self):
        class Broken(Rewrite):
            def reason(self, graph):
                return "never asked"

        _, (record,) = runner(Broken("x", crash), on_failure="keep").optimize(GRAPH)
        assert record.reason == ""

    def test_steps_hold_the_graph_behind_each(self):
        pruned = GRAPH.with_edges({DATA})
        passes = Rewrite("x", lambda graph: None), Rewrite("y", lambda graph: pruned)
        assert [step.graph for step in runner(*passes).steps(GRAPH)] == [GRAPH, pruned]

    def test_a_bad_graph_is_refused_before_any_pass(self):
        with pytest.raises(InternalError, match="without a data edge"):
            runner().optimize(cut_data(GRAPH))

    def test_times_add_up_over_requests(self):
        clock = ManualClock()
        timed = runner(Rewrite("x", lambda graph: None, clock), clock=clock)
        for _ in range(3):
            timed.optimize(GRAPH)
        assert timed.seconds == {"x": 1.5}


class TestCyclePasses:
    def test_all_edits_are_returned(self):
        class Ask:
            def __init__(self, name):
                self.name = name

            def apply(self, view):
                return (SetBudget(self.name, 1.0, 0.0),)

        both = PassRunner(ManualClock(), graph_passes=(), cycle_passes=(Ask("a"), Ask("b")))
        assert [edit.engine for edit in both.look(view_of("a", "b"))] == ["a", "b"]

    def test_one_that_asks_for_what_can_t_be_is_left_out_with_all_its_edits(self, caplog):
        class Ask:
            name = "ask"

            def apply(self, view):
                return (SetBudget("a", 1.0, 0.0), SetBudget("nowhere", 1.0, 0.0))

        asking = PassRunner(ManualClock(), graph_passes=(), cycle_passes=(Ask(),))
        with caplog.at_level(logging.ERROR):
            assert asking.look(view_of("a")) == ()
        assert asking.failed == {"ask"}
        assert "there is no engine 'nowhere'; known: a" in caplog.text

    def test_what_they_did_is_counted(self):
        class Now:
            name = "now"
            edits = ()

            words = "not now"

            def apply(self, view):
                return self.edits

            def reason(self, view):
                return self.words

        counted = PassRunner(ManualClock(), graph_passes=(), cycle_passes=(Now(),))
        counted.look(VIEW)
        Now.words = ""  # nothing was offered
        counted.look(VIEW)
        Now.edits = (SetBudget("a", 1.0, 0.25), SetBudget("b", 1.0, 0.5))
        counted.look(VIEW)
        assert counted.cycle_counts == {"now": CycleCount(3, 1, 0.75, reason="not now")}

    def test_a_failing_one_is_logged_and_left_out_from_then_on(self, caplog):
        class Explosive:
            name = "explosive"
            calls = 0

            def apply(self, view):
                self.calls += 1
                raise KeyError("a bug")

        explosive = Explosive()
        once = PassRunner(ManualClock(), graph_passes=(), cycle_passes=(explosive,))
        with caplog.at_level(logging.ERROR):
            assert once.look(VIEW) == once.look(VIEW) == ()
        assert explosive.calls == 1
        assert "explosive" in caplog.text
        assert once.cycle_counts == {"explosive": CycleCount(1, 0, 0.0, "KeyError: 'a bug'")}


class TestConfiguration:
    def test_unknown_names_are_refused_with_the_known_ones(self):
        with pytest.raises(ConfigError, match=r"prune_everything.*prune_dependencies"):
            PassRunner(ManualClock(), disabled=frozenset({"prune_everything"}))

    def test_every_pass_can_be_left_out(self):
        names = frozenset(p.name for p in (*GRAPH_PASSES, *CYCLE_PASSES))
        bare = PassRunner(ManualClock(), disabled=names)
        assert bare.optimize(GRAPH) == (GRAPH, ())
        assert bare.look(VIEW) == ()

    def test_names_are_unique(self):
        names = [p.name for p in (*GRAPH_PASSES, *CYCLE_PASSES)]
        assert len(set(names)) == len(names)

    def test_what_to_do_on_failure_is_one_of_two(self):
        with pytest.raises(ConfigError, match="on_failure"):
            PassRunner(ManualClock(), on_failure="ignore")
