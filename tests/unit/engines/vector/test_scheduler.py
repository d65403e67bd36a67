import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.engines.vector.scheduler import (
    NO_LIST,
    WAIT_MAX,
    Rows,
    plan_substage,
    waited_after,
)


def make(lists, priorities=None, waited=None):
    width = max(map(len, lists), default=0)
    table = np.array([row + [NO_LIST] * (width - len(row)) for row in lists], np.int64)
    table = table.reshape(len(lists), width)
    n = len(lists)
    rows = Rows(
        np.array([len(row) for row in lists], np.int64),
        np.array(priorities if priorities is not None else [1] * n, np.int64),
        np.array(waited if waited is not None else [0] * n, np.int64),
        np.arange(n),
    )
    return rows, lambda asked: table[asked]


def price(*list_s):
    return lambda lists: np.array([*list_s, np.nan])[lists]


def plain_plan(lists, priorities, waited, list_s, budget_s, lists_max):
    """The obvious loop over rows and their clusters."""

    def urgency(i):
        overdue = waited[i] if waited[i] >= WAIT_MAX else 0
        return priorities[i], -overdue, len(lists[i]), i

    counts, left_s = [0] * len(lists), budget_s
    served = sorted((i for i in range(len(lists)) if lists[i]), key=urgency)
    for i in served:
        prices = [list_s[number] for number in lists[i][:lists_max]]
        if sum(prices) <= left_s:
            counts[i], left_s = len(prices), left_s - sum(prices)
            continue
        if sum(prices) > budget_s:  # longer than any budget: cut
            counts[i] = sum(sum(prices[: n + 1]) <= left_s for n in range(len(prices)))
        break
    if served and not any(counts):
        counts[served[0]] = 1
    return counts


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_plan_is_that_of_the_plain_loop(data):
    n = data.draw(st.integers(1, 40))
    lists = [data.draw(st.lists(st.integers(0, 5), max_size=12)) for _ in range(n)]
    priorities = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    waits = st.sampled_from([0, 3, WAIT_MAX - 1, WAIT_MAX, WAIT_MAX + 2])
    waited = data.draw(st.lists(waits, min_size=n, max_size=n))
    # Whole numbers, so that the order of additions can't matter.
    prices = data.draw(st.lists(st.integers(1, 9), min_size=6, max_size=6))
    budget_s = data.draw(st.integers(0, 600))
    lists_max = data.draw(st.none() | st.integers(1, 8))
    rows, upcoming = make(lists, priorities, waited)
    planned = plan_substage(rows, upcoming, price(*prices), budget_s, lists_max)
    assert planned.tolist() == plain_plan(lists, priorities, waited, prices, budget_s, lists_max)


def test_a_list_dearer_than_the_budget_is_still_taken():
    rows, upcoming = make([[0], [1]])
    assert plan_substage(rows, upcoming, price(9.0, 9.0), 0.1).sum() == 1
    assert plan_substage(rows, upcoming, price(9.0, 9.0), -1.0).sum() == 1


def test_an_endless_budget_takes_everything():
    rows, upcoming = make([[0, 1, 1], [], [1]])
    assert plan_substage(rows, upcoming, price(9.0, 9.0), math.inf).tolist() == [3, 0, 1]


def test_nothing_in_flight_needs_nothing():
    rows, upcoming = make([[], []])
    assert plan_substage(rows, upcoming, price(1.0), 5.0).tolist() == [0, 0]


def test_what_is_shorter_than_the_budget_is_not_cut():
    rows, upcoming = make([[0] * 3, [0] * 4, [0] * 40])
    assert plan_substage(rows, upcoming, price(1.0), 5.0).tolist() == [3, 0, 0]
    rows, upcoming = make([[], [0] * 4, [0] * 40])
    assert plan_substage(rows, upcoming, price(1.0), 5.0).tolist() == [0, 4, 1]


def test_a_long_search_is_not_starved_by_short_ones():
    left, waited, served = 40, np.zeros(2, np.int64), 0
    for _ in range(10 * (WAIT_MAX + 1)):  # in every sub-stage another short search is there
        rows, upcoming = make([[0] * left, [0] * 5], waited=waited)
        counts = plan_substage(rows, upcoming, price(1.0), 5.0)
        waited = waited_after(counts, waited)
        waited[1] = 0
        served += counts[0] > 0
        left -= int(counts[0])
    assert served >= 8
    assert left == 0


def test_a_lower_class_gets_what_the_higher_one_leaves():
    rows, upcoming = make([[0] * 4, [0, 0], [0, 0]], priorities=[2, 0, 1])
    assert plan_substage(rows, upcoming, price(1.0), 4.0).tolist() == [0, 2, 2]
    assert plan_substage(rows, upcoming, price(1.0), 3.0).tolist() == [0, 2, 0]
