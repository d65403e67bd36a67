"""What cycle passes see of what waits, and what the passes of users can do with it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations, Priority
from heddle.passes.cycle_view import AddEdge, Reorder, Replace, SetBudget
from heddle.passes.runner import PassRunner
from heddle.workflow.ragraph import RAGraph
from tests.helpers.fake_ports import Bench, ManualClock, is_search


class Users:
    """A cycle pass of a user: does what a function of the view says."""

    def __init__(self, edits=lambda view: ()):
        self.name, self.edits, self.views = "users", edits, []

    def apply(self, view):
        self.views.append(view)
        return tuple(self.edits(view))


def bench_with(cycle_pass, **sizes):
    runner = PassRunner(ManualClock(), graph_passes=(), cycle_passes=(cycle_pass,))
    return Bench(runner=runner, **sizes)


@pytest.fixture(scope="module")
def two_searches():
    """Two retrievals that don't depend on each other."""
    graph = RAGraph("two")
    graph.add_retrieval("one", output="one_docs", topk=2, nprobe=8)
    graph.add_retrieval("other", output="other_docs", topk=2, nprobe=8)
    graph.add_generation("answer", "From {one_docs} and {other_docs}: {query}")
    return graph.compile()


class TestView:
    def test_costs_and_starts_are_those_of_the_rows_served_before(self, search):
        users = Users()
        bench = bench_with(users, vector=1)
        bench.submit(search)  # a frame of 0.001 s, and nothing before it
        bench.vector.holds = lambda task: True
        calls = [bench.submit(search) for _ in range(4)]
        bench.cycle()
        view = users.views[-1]
        assert [ready.identity.request_id for ready in view.wavefront] == [c.id for c in calls[1:]]
        assert {ready.engine for ready in view.wavefront} == {"vector"}
        assert [ready.cost_s for ready in view.wavefront] == pytest.approx([0.001] * 3)
        starts_s = [ready.start_s - view.now_s for ready in view.wavefront]
        assert starts_s == pytest.approx([0.001, 0.002, 0.003])
        assert all(ready.is_untouched and not ready.may_approximate for ready in view.wavefront)

    def test_nothing_is_predicted_before_anything_was_served(self, search):
        users = Users()
        bench = bench_with(users, vector=1)
        bench.vector.holds = lambda task: True
        bench.submit(search)
        bench.submit(search)
        (ready,) = users.views[-1].wavefront
        assert (ready.cost_s, ready.start_s) == (None, users.views[-1].now_s)

    def test_a_prompt_costs_by_its_tokens(self, draft):
        users = Users()
        bench = bench_with(users, llm=2)
        bench.llm.costs = CostSnapshot("llm", 1, {"call": 1.0, "prefill_tokens": 0.5})
        bench.submit(draft)
        bench.llm.holds = lambda task: True
        bench.submit(draft)
        bench.submit(draft, {"query": "a longer question"})
        (ready,) = users.views[-1].wavefront
        tokens = len(ready.payload.token_ids)
        decode_s = bench.runtime.lanes["llm"].row_s
        assert ready.cost_s == pytest.approx(1.0 + 0.5 * tokens + decode_s)

    def test_a_search_whose_rows_were_sent_in_part_is_not_untouched(self, search):
        users = Users()
        bench = bench_with(users, vector=2)
        bench.vector.holds = lambda task: True
        bench.submit(search)
        many = RAGraph("many")
        many.add_generation("split", "Split {query}.", output="parts", parse="lines")
        many.add_retrieval("find", query="parts", topk=2)
        bench.llm.texts = {"split": ["a\nbb\nccc\n"]}
        bench.submit(many.compile())
        bench.cycle()
        (ready,) = users.views[-1].wavefront
        assert (ready.rows, ready.payload.rows, ready.is_untouched) == (2, 3, False)


class TestReorder:
    def test_what_is_named_goes_first_of_its_class(self, search):
        def last_first(view):
            keys = [ready.key for ready in view.wavefront if ready.engine == "vector"]
            return (Reorder("vector", tuple(reversed(keys)), 0.001),) if len(keys) > 1 else ()

        bench = bench_with(Users(last_first), vector=1)
        bench.vector.holds = lambda task: True
        first = bench.submit(search)
        normal = [bench.submit(search) for _ in range(2)]
        urgent = [bench.submit(search, priority=Priority.INTERACTIVE) for _ in range(2)]
        for _ in range(5):
            bench.vector.answer_all()
            bench.cycle()
        served = [task.identity.request_id for task in bench.vector.tasks()]
        expected = [first, urgent[1], urgent[0], normal[1], normal[0]]
        assert served == [call.id for call in expected]
        bench.assert_idle()

    def test_what_doesn_t_wait_there_can_t_be_ordered(self, search):
        users = Users(lambda view: (Reorder("vector", ((99, "find"),), 0.001),))
        bench = bench_with(users, vector=1)
        assert bench.submit(search).answer
        assert bench.runtime.planner.runner.failed == {"users"}


class TestAddEdge:
    def test_a_consumer_waits_until_its_producer_has_ended(self, two_searches):
        def one_by_one(view):
            mine = [r for r in view.wavefront if r.engine == "vector" and r.is_untouched]
            return [
                AddEdge(r.identity.request_id, mine[0].primitive, r.primitive, 0.001)
                for r in mine[1:]
            ]

        bench = bench_with(Users(one_by_one))
        bench.vector.holds = lambda task: True
        call = bench.submit(two_searches)
        bench.cycle()
        (task,) = bench.vector.tasks()
        bench.vector.answer_all()
        bench.cycle()
        assert len(bench.vector.tasks()) == 2
        bench.vector.answer_all()
        bench.cycle()
        assert call.answer.receipt.edits == (
            f"add_edge: other.searching@0 after {task.identity.node}.searching@0",
        )
        bench.assert_idle()

    def test_a_request_that_is_cancelled_leaves_nothing(self, two_searches):
        def one_by_one(view):
            mine = [r for r in view.wavefront if r.engine == "vector"]
            return [
                AddEdge(r.identity.request_id, mine[0].primitive, r.primitive, 0.0)
                for r in mine[1:]
            ]

        bench = bench_with(Users(one_by_one))
        bench.vector.holds = lambda task: True
        bench.cancel(bench.submit(two_searches))
        bench.assert_idle()

    @pytest.mark.parametrize(
        "pairs",
        [
            [("one.searching@0", "one.searching@0")],
            [("one.searching@0", "other.searching@0"), ("other.searching@0", "one.searching@0")],
            [("one.searching@0", "answer.prefilling@0")],
            [("nothing@0", "one.searching@0")],
        ],
    )
    def test_an_edge_that_can_t_be_leaves_the_request_as_it_was(self, two_searches, pairs):
        def edges(view):
            waits = {r.primitive for r in view.wavefront}
            if "one.searching@0" not in waits:
                return ()
            return [AddEdge(1, producer, consumer, 0.0) for producer, consumer in pairs]

        bench = bench_with(Users(edges))
        call = bench.submit(two_searches)
        assert call.answer.receipt.edits == ()
        assert bench.runtime.planner.runner.failed == {"users"}
        bench.assert_idle()

    def test_a_producer_that_runs_again_lets_its_consumer_go_once(self):
        graph = RAGraph("three")
        for name in ("one", "other", "last"):
            graph.add_generation(name, f"{name} {{query}}", name)
        graph.add_generation("join", "{one} {other} {last}")

        def last_of_all(view):
            waits = {r.primitive: r for r in view.wavefront if r.is_untouched}
            if "last.prefilling@0" in waits and not last.added:
                last.added = True
                last_id = waits["last.prefilling@0"].identity.request_id
                for name in ("one", "other"):
                    yield AddEdge(last_id, f"{name}.prefilling@0", "last.prefilling@0", 0.0)

        last = SimpleNamespace(added=False)
        bench = bench_with(Users(last_of_all), llm=4)
        bench.llm.holds = lambda task: True
        call = bench.submit(graph.compile())

        def tasks_of(node):
            return [n for n, task in bench.llm.open.items() if task.identity.node == node]

        prefill, decode = tasks_of("one")
        bench.llm.answer(prefill)
        bench.llm.fail(decode)
        bench.cycle()
        again, _ = tasks_of("one")
        bench.llm.answer(again)
        bench.cycle()
        waiting = bench.runtime.lanes["llm"].scheduler.pending
        assert not waiting, "the other prompt is not computed yet"
        while bench.llm.open:
            bench.llm.answer_all()
            bench.cycle()
        assert call.answer.receipt.retries == 1
        bench.assert_idle()


class TestReplace:
    def shorter(self, view):
        """A user's way to shed load: scan fewer lists where the wait is long."""
        for ready in view.wavefront:
            payload = ready.payload
            if isinstance(payload, SearchPayload) and payload.nprobe == 8 and ready.is_untouched:
                yield Replace(*ready.key, replace(payload, nprobe=2), 0.001)

    def test_an_approximate_request_gets_another_payload(self, two_searches):
        bench = bench_with(Users(self.shorter))
        call = bench.submit(two_searches, optimizations=Optimizations.APPROX)
        searches = [task.payload for task in bench.vector.tasks() if is_search(task)]
        assert [payload.nprobe for payload in searches] == [2, 2]
        assert len(call.answer.receipt.edits) == 2

    def test_an_exact_one_keeps_its_own(self, two_searches):
        bench = bench_with(Users(self.shorter))
        call = bench.submit(two_searches)
        searches = [task.payload for task in bench.vector.tasks() if is_search(task)]
        assert [payload.nprobe for payload in searches] == [8, 8]
        assert call.answer.receipt.edits == ()
        assert bench.runtime.planner.runner.failed == {"users"}

    def test_a_payload_of_other_rows_is_refused(self, two_searches):
        def none_at_all(view):
            for ready in view.wavefront:
                if isinstance(ready.payload, SearchPayload):
                    yield Replace(*ready.key, ready.payload.part(0, 0), 0.001)

        bench = bench_with(Users(none_at_all))
        assert bench.submit(two_searches, optimizations=Optimizations.APPROX).answer
        assert bench.runtime.planner.runner.failed == {"users"}


@pytest.mark.parametrize(
    "edit",
    [
        SetBudget("vector", 0.0, 0.1),
        SetBudget("nowhere", 0.1, 0.1),
        SetBudget("vector", 0.1, float("nan")),
        Reorder("vector", ((1, "find.searching@0"), (1, "find.searching@0")), 0.1),
    ],
)
def test_what_makes_no_sense_is_left_out(search, edit):
    bench = bench_with(Users(lambda view: (edit,) if len(view.wavefront) else ()))
    bench.vector.holds = lambda task: True
    bench.submit(search)
    bench.vector.answer_all()
    bench.cycle()
    assert bench.runtime.planner.runner.failed == {"users"}
    bench.assert_idle()


def test_passes_look_where_anything_waits_for_credits(draft):
    users = Users()
    bench = bench_with(users, llm=2)
    bench.llm.holds = lambda task: True
    bench.submit(draft)
    assert not users.views
    bench.submit(draft)
    assert {ready.identity.node for ready in users.views[-1].wavefront} == {"write"}
    assert PrimitiveKind.PREFILLING in users.views[-1].engines["llm"].kinds
