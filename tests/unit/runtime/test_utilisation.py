"""An engine's share of work and its calls are means over the last seconds."""

import pytest

from heddle.runtime.utilisation import SHARE_MAX, Utilisation


def served(calls: int, apart_s: float, call_s: float, begun_s: float = 1e6) -> Utilisation:
    use = Utilisation()
    for number in range(calls):
        use.enter(begun_s + number * apart_s)
        use.work(call_s, begun_s + number * apart_s + call_s)
        use.leave(begun_s + number * apart_s + call_s)
    return use


def test_nothing_is_delayed_where_nobody_is():
    assert (Utilisation().share, Utilisation().delay) == (0.0, 0.0)


def test_both_means_come_to_what_arrives():
    use = served(2_000, 0.2, 0.1)
    assert use.share == pytest.approx(0.5, rel=0.05)
    assert use.delay == pytest.approx(0.5 / (1 - 0.5), rel=0.1)


def test_one_call_says_little_of_an_engine_that_was_calm():
    assert served(1, 1.0, 0.1).delay < 0.15


def test_what_was_a_minute_ago_is_forgotten():
    use = served(2_000, 0.2, 0.19)
    assert use.delay > 10.0
    use.work(0.0, 1e6 + 400 + 60)
    assert use.delay < 0.02


def test_an_engine_that_never_rests_costs_a_bounded_delay():
    use = served(1_000, 0.1, 0.1)
    assert use.share == SHARE_MAX
    assert use.delay == pytest.approx(1 / (1 - SHARE_MAX), rel=0.2)
