"""The budget is the best of those replayed, and searches stay whole where none pays."""

import math
import random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.core.call_order import SHORTEST_FIRST, CallOrder, FirstServed
from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Load
from heddle.core.primitives import PrimitiveKind
from heddle.costs.substage import SearchCall, StepCost, replayed_s, substage_gain_s
from heddle.passes.cycle_view import CycleView, EngineView, SetBudget
from heddle.passes.split_substages import REFIT_SHARE, SLOW_MAX, SplitSubstages

SEARCH = frozenset({PrimitiveKind.SEARCHING})
COSTS = CostSnapshot("vector", 1, {"call": 4e-4, "scans": 3e-5, "lists": 1e-6})


def view(stage_s=None, budget_s=None, kinds=SEARCH, name="vector", speculates=False, **more):
    engine = EngineView(name, kinds, 1, 0, Load(), more.get("costs"), stage_s, budget_s)
    return CycleView(0.0, (), {name: engine}, speculates=speculates)


def calls(load, works_s, count=128, seed=0):
    draws = random.Random(seed)
    mean_s, now_s, found = fmean(works_s), 0.0, []
    for _ in range(count):
        now_s += draws.expovariate(load / mean_s)
        found.append(SearchCall(now_s, draws.choice(works_s)))
    return tuple(found)


def budget_of(load, works_s, costs=COSTS, budget_s=None, order=SHORTEST_FIRST, **options):
    engine = EngineView("vector", SEARCH, 1, 0, Load(), costs, 0.01, budget_s, calls(load, works_s))
    view = CycleView(0.0, (), {"vector": engine}, **options)
    edits = SplitSubstages(order=order).apply(view)
    return edits[0] if edits else None


def slow_s(took_s):
    return fmean(sorted(took_s)[-12:])


MIXED = (0.005, 0.01, 0.02, 0.045)


class TestReplay:
    def test_mixed_searches_under_load_are_cut(self):
        edit = budget_of(0.85, MIXED)
        assert edit.budget_s < max(MIXED)
        assert edit.gain_s > 0.1 * fmean(MIXED)

    @pytest.mark.parametrize("load", [0.1, 0.3])
    def test_equal_ones_that_hardly_meet_stay_whole(self, load):
        edit = budget_of(load, (0.02,))
        assert edit.budget_s > 4 * 0.02
        assert edit.gain_s == 0.0

    def test_where_a_step_costs_as_much_as_a_search_none_is_cut(self):
        dear = CostSnapshot("vector", 1, {"call": 0.03, "scans": 0.0, "lists": 1e-6})
        edit = budget_of(0.5, MIXED, costs=dear)
        assert edit.budget_s > max(MIXED)

    def test_the_engine_s_own_overhead_counts_no_less_than_the_default(self):
        cheap = CostSnapshot("vector", 1, {"call": 0.0, "scans": 3e-5, "lists": 1e-6})
        assert budget_of(0.85, MIXED, costs=cheap) == budget_of(0.85, MIXED)

    def test_a_budget_that_is_near_enough_stays(self):
        edit = budget_of(0.85, MIXED)
        assert budget_of(0.85, MIXED, budget_s=edit.budget_s * (1 + 0.9 * REFIT_SHARE)) is None
        assert budget_of(0.85, MIXED, budget_s=edit.budget_s * 2) == edit

    def test_what_is_in_force_stays_while_nothing_is_clearly_better(self):
        whole = budget_of(0.15, MIXED)
        assert whole.gain_s == 0.0
        assert budget_of(0.15, MIXED, budget_s=whole.budget_s) is None
        assert budget_of(0.15, MIXED, budget_s=0.01) is None
        assert budget_of(0.85, MIXED, budget_s=whole.budget_s) == budget_of(0.85, MIXED)

    def test_a_budget_in_force_that_became_too_short_goes(self):
        assert budget_of(0.85, MIXED, budget_s=3e-4) == budget_of(0.85, MIXED)

    @given(
        st.floats(0.3, 0.95),
        st.lists(st.floats(1e-3, 0.1), min_size=1, max_size=4),
        st.one_of(st.none(), st.floats(1e-3, 0.1)),
        st.floats(4e-4, 1e-2),
    )
    @example(0.57, [0.013, 0.049, 0.009], None, 0.0024)  # the typical search would gain more
    @example(0.36, [0.097, 0.002], 0.016, 0.0036)  # as would it here from what is in force
    def test_slow_searches_pay_little_for_the_others(self, load, works_s, in_force_s, step_s):
        costs = CostSnapshot("vector", 1, {"call": step_s, "scans": 3e-5, "lists": 1e-6})
        edit = budget_of(load, works_s, costs, in_force_s)
        budget_s = edit.budget_s if edit else in_force_s
        batches, served = (
            slow_s(replayed_s(calls(load, works_s), tried_s, StepCost(step_s, 3e-5)))
            for tried_s in (math.inf, budget_s)
        )
        assert served <= (1 + REFIT_SHARE) * SLOW_MAX * batches

    def test_searches_are_replayed_in_the_order_they_are_served_in(self):
        arrivals, shortest = CallOrder(FirstServed.ARRIVAL), CallOrder(ageing=1e-3)
        assert budget_of(0.85, MIXED, order=arrivals).budget_s > max(MIXED)
        edit = budget_of(0.85, MIXED, order=shortest)
        batches_s, cut_s = (
            fmean(replayed_s(calls(0.85, MIXED), budget_s, StepCost(4e-4, 3e-5), shortest.ageing))
            for budget_s in (math.inf, edit.budget_s)
        )
        assert edit.gain_s == pytest.approx(batches_s - cut_s)

    def test_between_two_tellings_nothing_moves(self):
        assert SplitSubstages().apply(view(0.1, costs=COSTS)) == ()


class TestEq1:
    @given(st.floats(1e-4, 10.0), st.floats(1e-5, 1e-2))
    def test_it_serves_where_no_lists_are_known(self, stage_s, overhead_s):
        (edit,) = SplitSubstages(overhead_s).apply(view(stage_s))
        others = np.linspace(stage_s / 200, stage_s, 400)
        best = max(substage_gain_s(stage_s, overhead_s, budget_s) for budget_s in others)
        gain_s = substage_gain_s(stage_s, overhead_s, edit.budget_s)
        assert gain_s >= best - 1e-12
        assert edit.gain_s == max(0.0, gain_s)
        assert 0 < edit.budget_s <= stage_s

    def test_it_serves_where_partial_hits_are_looked_at(self):
        edit = budget_of(0.3, (0.02,), speculates=True)
        assert edit.budget_s < 0.01

    def test_but_not_where_the_lane_is_busy_or_searches_are_short(self):
        assert budget_of(0.9, MIXED, speculates=True) == budget_of(0.9, MIXED)
        assert budget_of(0.3, (0.002,), speculates=True) == budget_of(0.3, (0.002,))

    @pytest.mark.parametrize("factor", [1 - 0.9 * REFIT_SHARE, 1.0, 1 + 0.9 * REFIT_SHARE])
    def test_a_budget_that_is_near_enough_stays(self, factor):
        (edit,) = SplitSubstages().apply(view(0.1))
        assert SplitSubstages().apply(view(0.1, edit.budget_s / factor)) == ()

    def test_each_search_engine_gets_its_own(self):
        engines = {**view(0.1, name="a").engines, **view(0.4, name="b").engines}
        edits = SplitSubstages().apply(CycleView(0.0, (), engines))
        assert all(isinstance(edit, SetBudget) for edit in edits)
        budgets = {edit.engine: edit.budget_s for edit in edits}
        assert budgets["b"] == pytest.approx(2 * budgets["a"])  # the square root of four times t


def test_nothing_is_asked_for_before_a_stage_was_measured():
    assert SplitSubstages().apply(view(None)) == ()
    assert SplitSubstages().apply(view(0.0)) == ()


def test_other_engines_are_left_alone():
    llm = frozenset({PrimitiveKind.PREFILLING, PrimitiveKind.DECODING})
    assert SplitSubstages().apply(view(1.0, kinds=llm)) == ()
