"""Loading and prefilling are weighed by their predicted times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.costs.load_choice import choose_loads


def test_a_fast_disk_loads_all():
    choice = choose_loads([0.1, 0.2, 0.3], [1.0, 1.0, 1.0])
    assert (choice.loads, choice.predicted_s, choice.all_loaded_s) == (3, 0.3, 0.3)


def test_a_slow_disk_loads_nothing():
    choice = choose_loads([2.0, 4.0, 6.0], [1.0, 1.0, 1.0])
    assert (choice.loads, choice.predicted_s, choice.all_loaded_s) == (0, 3.0, 6.0)


def test_behind_a_full_queue_the_later_ones_are_prefilled():
    """The first are on their way for others already; behind them the queue is long."""
    choice = choose_loads([0.1, 0.2, 9.0, 9.5], [1.0, 1.0, 1.0, 1.0])
    assert choice.loads == 2
    assert choice.predicted_s == pytest.approx(2.2)


def test_waiting_for_one_may_pay_only_with_those_behind_it():
    assert choose_loads([2.0, 2.1, 2.2], [1.0, 1.0, 1.0]).loads == 3


def test_while_the_engine_is_busy_loading_costs_nothing():
    assert choose_loads([3.0, 6.0], [1.0, 1.0]).loads == 0
    busy = choose_loads([3.0, 6.0], [1.0, 1.0], busy_s=4.0)
    assert (busy.loads, busy.predicted_s, busy.all_loaded_s) == (1, 5.0, 6.0)
    assert choose_loads([3.0, 6.0], [1.0, 1.0], busy_s=6.0).loads == 2


def test_of_equals_the_one_that_loads_most_is_taken():
    assert choose_loads([1.0, 2.0], [1.0, 1.0]).loads == 2
    assert choose_loads([0.0, 0.0], [0.0, 0.0]).loads == 2


def test_nothing_stored_is_nothing_to_choose():
    assert choose_loads([], []).loads == 0


seconds = st.floats(0.0, 1e3)


@given(st.lists(st.tuples(seconds, seconds), max_size=12), seconds)
def test_no_other_choice_is_predicted_to_be_faster(chunks, busy_s):
    ends_s = sorted(end for end, _ in chunks)
    prefill_s = [prefill for _, prefill in chunks]
    choice = choose_loads(ends_s, prefill_s, busy_s)
    for loads in range(len(chunks) + 1):
        wait_s = max(busy_s, ends_s[loads - 1] if loads else 0.0)
        assert choice.predicted_s <= wait_s + sum(prefill_s[loads:])
    assert choice.predicted_s <= choice.all_loaded_s, "loading everything would be faster"
    assert choice.predicted_s <= busy_s + sum(prefill_s), "loading nothing would be faster"
