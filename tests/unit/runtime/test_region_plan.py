"""Regions are planned once for each workflow, scope and configuration."""

from heddle.lowering.scope import initial_scope
from heddle.passes.runner import PassRunner
from heddle.runtime.region_plan import PLANS_MAX, RegionPlanner
from heddle.workflow.ragraph import RAGraph
from tests.helpers.fake_ports import ManualClock

SCOPE = initial_scope({"query": ""})


def planner():
    return RegionPlanner(PassRunner(ManualClock()))


def plan(planner, workflow, optimize=True, scope=SCOPE):
    return planner.plan(workflow, workflow.entries, scope, optimize)


def test_a_decode_rides_with_its_prefill(hyde):
    found = plan(planner(), hyde)
    assert found.rider == {
        "imagine.prefilling@0": "imagine.decoding@0",
        "answer.prefilling@0": "answer.decoding@0",
    }


def test_depth_falls_to_the_output(hyde):
    found = plan(planner(), hyde)
    order = ["imagine.prefilling@0", "imagine.decoding@0", "find.embedding@0"]
    order += ["find.searching@0", "answer.prefilling@0", "answer.decoding@0"]
    assert [found.depth[name] for name in order] == [5, 4, 3, 2, 1, 0]


def test_what_waits_for_what(hyde):
    found = plan(planner(), hyde)
    assert found.waits["imagine.prefilling@0"] == 0
    assert found.waits["answer.prefilling@0"] == 1
    assert found.after["find.searching@0"] == ("answer.prefilling@0",)
    assert found.last["find.searching@0"] == "find"
    assert found.readers["query@input"] == ("imagine.prefilling@0", "answer.prefilling@0")


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
