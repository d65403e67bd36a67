"""Virtual time jumps from one planned action to the next."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.simulator.timeline import Timeline


@given(st.lists(st.floats(0, 100), max_size=30))
def test_actions_run_in_order_of_time_and_time_never_falls(times_s):
    timeline, seen = Timeline(), []
    for time_s in times_s:
        timeline.at(time_s, lambda: seen.append(timeline.now_s()))
    while timeline.step():
        pass
    assert seen == sorted(times_s)


def test_equal_times_run_in_the_order_planned():
    timeline, seen = Timeline(), []
    for name in "abc":
        timeline.after(1.0, lambda name=name: seen.append(name))
    while timeline.step():
        pass
    assert seen == ["a", "b", "c"]


def test_an_action_may_plan_another_but_not_in_the_past():
    timeline, seen = Timeline(), []

    def first():
        timeline.at(0.5, lambda: seen.append(timeline.now_s()))

    timeline.at(2.0, first)
    while timeline.step():
        pass
    assert seen == [2.0]
    assert not timeline.step()
