"""Regions are planned once for each workflow, scope and configuration."""

from heddle.graph.pgraph import EdgeKind
from heddle.lowering.scope import initial_scope
from heddle.passes.runner import PassRunner
from heddle.runtime.events import NodeFinished, NodeStarted
from heddle.runtime.region_plan import PLANS_MAX, RegionPlanner
from heddle.workflow.ragraph import RAGraph
from tests.helpers.fake_ports import ManualClock

SCOPE = initial_scope({"query": ""})


def planner():
    return RegionPlanner(PassRunner(ManualClock()))


def plan(planner, workflow, optimize=True, scope=SCOPE):
    return planner.plan(workflow, workflow.entries, scope, optimize)


def test_a_decode_rides_with_its_prefill(hyde):
    found = plan(planner(), hyde).primitives
    assert {name: planned.rider for name, planned in found.items() if planned.rider} == {
        "imagine.prefilling@0": "imagine.decoding@0",
        "answer.prefilling@0": "answer.decoding@0",
    }


def test_depth_falls_to_the_output(hyde):
    found = plan(planner(), hyde).primitives
    order = ["imagine.prefilling@0", "imagine.decoding@0", "find.embedding@0"]
    order += ["find.searching@0", "answer.prefilling@0", "answer.decoding@0"]
    assert [found[name].depth for name in order] == [5, 4, 3, 2, 1, 0]


def test_what_waits_for_what(hyde):
    found = plan(planner(), hyde)
    assert found.primitives["imagine.prefilling@0"].waits == 0
    assert found.primitives["answer.prefilling@0"].waits == 1
    assert found.primitives["find.searching@0"].after == ("answer.prefilling@0",)
    assert found.readers["query@input"] == ("imagine.prefilling@0", "answer.prefilling@0")


def test_what_callers_hear_of_a_node(hyde):
    found = plan(planner(), hyde).primitives
    told = {name: (planned.started, planned.finished) for name, planned in found.items()}
    assert told == {
        "imagine.prefilling@0": (NodeStarted("imagine", 0), None),
        "imagine.decoding@0": (None, NodeFinished("imagine", 0)),
        "find.embedding@0": (NodeStarted("find", 0), None),
        "find.searching@0": (None, NodeFinished("find", 0)),
        "answer.prefilling@0": (NodeStarted("answer", 0), None),
        "answer.decoding@0": (None, NodeFinished("answer", 0)),
    }


def test_plans_are_reused(hyde, search):
    known = planner()
    assert plan(known, hyde) is plan(known, hyde)
    assert plan(known, hyde) is not plan(known, hyde, optimize=False)
    assert plan(known, hyde) is not plan(known, search)
    turned = plan(known, hyde).scope
    assert plan(known, hyde, scope=turned) is not plan(known, hyde)


def test_plans_are_bounded_and_the_least_used_goes_first():
    known = planner()
    workflows = [RAGraph(f"w{i}").add_retrieval("find").compile() for i in range(PLANS_MAX + 1)]
    first = plan(known, workflows[0])
    second = plan(known, workflows[1])
    for workflow in workflows[2:-1]:
        plan(known, workflow)
    assert plan(known, workflows[0]) is first
    plan(known, workflows[-1])
    assert plan(known, workflows[0]) is first
    assert plan(known, workflows[1]) is not second


def test_the_graphs_before_any_pass_are_known_by_workflow(hyde, search):
    known = planner()
    plan(known, hyde)
    plan(known, search)
    (graph,) = known.lowered_of(hyde.name)
    assert {p.name for p in graph.primitives} == set(plan(known, hyde).primitives)
    assert any(edge.kind is EdgeKind.ORDER for edge in graph.edges)
    assert known.lowered_of("another") == ()


def test_a_graph_that_was_only_tried_is_not_among_them(hyde):
    known = planner()
    tried = known.plan(hyde, hyde.entries, SCOPE, True, opens=False)
    assert known.lowered_of(hyde.name) == ()
    assert plan(known, hyde) is tried
    known.plan(hyde, hyde.entries, SCOPE, True, opens=False)
    assert known.lowered_of(hyde.name) == (tried.lowered,)
