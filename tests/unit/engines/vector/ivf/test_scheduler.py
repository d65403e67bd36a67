import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.engines.vector.ivf.scheduler import (
    NO_LIST,
    Rows,
    plan_shared,
    plan_substage,
)


def make(lists, priorities=None, ranks=None):
    width = max(map(len, lists), default=0)
    table = np.array([row + [NO_LIST] * (width - len(row)) for row in lists], np.int64)
    table = table.reshape(len(lists), width)
    n = len(lists)
    rows = Rows(
        np.array([len(row) for row in lists], np.int64),
        np.array(priorities if priorities is not None else [1] * n, np.int64),
        np.array(ranks if ranks is not None else [0] * n, np.float64),
        np.arange(n),
    )
    return rows, lambda asked: table[asked]


def price(*list_s):
    return lambda lists: np.array([*list_s, np.nan])[lists]


def in_order(lists, priorities, ranks):
    return sorted(
        (i for i in range(len(lists)) if lists[i]), key=lambda i: (priorities[i], ranks[i], i)
    )


def plain_plan(lists, priorities, ranks, list_s, budget_s, lists_max):
    """The obvious loop over rows and their clusters."""

    counts, left_s = [0] * len(lists), budget_s
    served = in_order(lists, priorities, ranks)
    for i in served:
        prices = [list_s[number] for number in lists[i][:lists_max]]
        if sum(prices) <= left_s:
            counts[i], left_s = len(prices), left_s - sum(prices)
            continue
        if sum(prices) > budget_s and i == served[0]:  # longer than any budget: cut, if alone
            counts[i] = sum(sum(prices[: n + 1]) <= left_s for n in range(len(prices)))
        break
    if served and not any(counts):
        counts[served[0]] = 1
    return counts


@pytest.mark.slow
@settings(max_examples=120)
@given(st.data())
def test_the_plan_is_that_of_the_plain_loop(data):
    n = data.draw(st.integers(1, 40))
    lists = [data.draw(st.lists(st.integers(0, 5), max_size=12)) for _ in range(n)]
    priorities = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    ranks = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    # Whole numbers, so that the order of additions can't matter.
    prices = data.draw(st.lists(st.integers(1, 9), min_size=6, max_size=6))
    budget_s = data.draw(st.integers(0, 600))
    lists_max = data.draw(st.none() | st.integers(1, 8))
    rows, upcoming = make(lists, priorities, ranks)
    planned = plan_substage(rows, upcoming, price(*prices), budget_s, lists_max)
    assert planned.tolist() == plain_plan(lists, priorities, ranks, prices, budget_s, lists_max)


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
    assert plan_substage(rows, upcoming, price(1.0), 6.0).tolist() == [0, 4, 0]


def test_what_ends_does_not_wait_for_a_part_of_another_task():
    rows, upcoming = make([[0] * 3, [0] * 40])
    assert plan_substage(rows, upcoming, price(1.0), 5.0).tolist() == [3, 0]
    together = replace(rows, arrivals=np.zeros(2, np.int64))
    assert plan_substage(together, upcoming, price(1.0), 5.0).tolist() == [3, 2]
    assert shared_plan(rows, 5.0) == [0, 1, 2]
    assert shared_plan(together, 5.0) == [0, 1, 2, 3, 4]


def shared_plan(rows, budget_s):
    lists = [np.arange(3), np.arange(40)]
    wanting = np.bincount(np.concatenate(lists))
    return plan_shared(rows, lists.__getitem__, wanting, np.ones(40), budget_s).tolist()


def plain_shared_plan(lists, priorities, ranks, list_s, budget_s):
    """The obvious loop over rows and their clusters, each of which is paid once."""
    if sum(list_s[number] for number in set().union(*lists)) <= budget_s:
        return sorted(set().union(*lists))
    chosen, left_s = [], budget_s
    served = in_order(lists, priorities, ranks)
    for i in served:
        new = [number for number in lists[i] if number not in chosen]
        whole_s = sum(list_s[number] for number in new)
        if left_s < whole_s and (whole_s <= budget_s or i != served[0]):
            break
        for number in new:
            if list_s[number] > left_s:
                left_s = -1
                break
            chosen.append(number)
            left_s -= list_s[number]
        if left_s < 0:
            break
    return sorted(chosen or lists[served[0]][:1])


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_the_shared_plan_is_that_of_the_plain_loop(data):
    n = data.draw(st.integers(1, 12))
    some = st.lists(st.integers(0, 19), max_size=12, unique=True)
    lists = data.draw(st.lists(some, min_size=n, max_size=n).filter(any))
    priorities = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    ranks = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    prices = data.draw(st.lists(st.integers(1, 9), min_size=20, max_size=20))
    budget_s = data.draw(st.integers(-1, 90) | st.just(math.inf))
    rows, _ = make(lists, priorities, ranks)
    wanting = np.bincount([number for row in lists for number in row], minlength=20)
    pending = [np.array(row, np.int64) for row in lists]
    list_s = np.array(prices, float)
    planned = plan_shared(rows, pending.__getitem__, wanting, list_s, budget_s)
    assert planned.tolist() == plain_shared_plan(lists, priorities, ranks, prices, budget_s)


def test_a_lower_class_gets_what_the_higher_one_leaves():
    rows, upcoming = make([[0] * 4, [0, 0], [0, 0]], priorities=[2, 0, 1])
    assert plan_substage(rows, upcoming, price(1.0), 4.0).tolist() == [0, 2, 2]
    assert plan_substage(rows, upcoming, price(1.0), 3.0).tolist() == [0, 2, 0]
