"""The runtime applies what cycle passes ask for, and survives their failures."""

from heddle.core.commands import Steer
from heddle.core.cost_snapshot import CostSnapshot
from heddle.passes.cycle_view import SetBudget
from heddle.passes.runner import PassRunner
from heddle.runtime.speculator import Speculator
from tests.helpers.fake_ports import Bench, ManualClock
from tests.helpers.running_searches import RunningSearches


class Ask:
    name = "ask"

    def __init__(self):
        self.views = []

    def apply(self, view):
        self.views.append(view)
        in_force = view.engines["vector"].budget_s
        return () if in_force == 0.25 else (SetBudget("vector", 0.25, 1.0),)


def bench_with(cycle_pass):
    return Bench(runner=PassRunner(ManualClock(), graph_passes=(), cycle_passes=(cycle_pass,)))


def test_an_edit_becomes_one_steer(search):
    ask = Ask()
    bench = bench_with(ask)
    bench.vector.holds = lambda task: True
    bench.submit(search)
    bench.submit(search)
    assert bench.vector.sent(Steer) == [Steer(budget_s=0.25)]


def test_a_new_epoch_is_steered_again(search):
    bench = bench_with(Ask())
    bench.submit(search)
    bench.vector.lose_lane()
    for _ in range(3):
        bench.submit(search)
    assert len(bench.vector.sent(Steer)) == 2


def test_passes_see_the_wavefront_and_the_engines(search):
    ask = Ask()
    bench = Bench(runner=PassRunner(ManualClock(), graph_passes=(), cycle_passes=(ask,)), vector=1)
    bench.vector.holds = lambda task: True
    calls = [bench.submit(search) for _ in range(3)]
    bench.cycle()
    view = ask.views[-1]
    assert {ready.identity.request_id for ready in view.wavefront} == {c.id for c in calls[1:]}
    engine = view.engines["vector"]
    assert (engine.in_flight, engine.pending, engine.stage_s) == (1, 2, None)
    bench.clock.time_s += 0.5
    bench.vector.answer_all()
    bench.cycle()
    assert ask.views[-1].engines["vector"].stage_s == 0.5


def test_a_pass_is_not_asked_while_nothing_searches(draft):
    ask = Ask()
    bench_with(ask).submit(draft)
    assert ask.views == []


def test_a_failing_cycle_pass_is_left_out_and_requests_go_on(search):
    class Explosive:
        name = "explosive"
        calls = 0

        def apply(self, view):
            self.calls += 1
            raise KeyError("a bug")

    explosive = Explosive()
    bench = bench_with(explosive)
    assert bench.submit(search).answer
    assert bench.submit(search).answer
    assert explosive.calls == 1
    assert bench.runtime.planner.runner.failed == {"explosive"}
    bench.assert_idle()


def test_an_edit_that_fails_ends_its_request_and_others_go_on(oneshot, monkeypatch):
    """Prompts of two requests are to be computed ahead, and written on behind."""
    bench = RunningSearches()
    bench.llm.costs = CostSnapshot("llm", 1, {"call": 0.01, "prefill_tokens": 1e-3})
    bench.llm.post()
    calls = [bench.submit(oneshot) for _ in range(2)]
    begin = Speculator.begin

    def fails_once(speculator, edit, now_s):
        if edit.provisional.request_id == calls[0].id:
            raise RuntimeError("a bug")
        begin(speculator, edit, now_s)

    monkeypatch.setattr(Speculator, "begin", fails_once)
    bench.look()
    assert "a bug" in str(calls[0].error)
    guessed = {task.identity.request_id for task in bench.llm.tasks()}
    assert guessed == {calls[1].id}
    bench.ended(calls[1])
    assert bench.runtime.planner.runner.failed == set()
