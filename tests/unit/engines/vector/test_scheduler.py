import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.engines.vector.scheduler import NO_LIST, Rows, plan_substage, served_after


def make(lists, priorities=None, served_at=None):
    width = max(map(len, lists), default=0)
    table = np.array([row + [NO_LIST] * (width - len(row)) for row in lists], np.int64)
    table = table.reshape(len(lists), width)

    def upcoming(first, stop):
        padded = np.full((len(lists), stop - first), NO_LIST, np.int64)
        part = table[:, first:stop]
        padded[:, : part.shape[1]] = part
        return padded

    n = len(lists)
    rows = Rows(
        np.array([len(row) for row in lists], np.int64),
        np.array(priorities if priorities is not None else [1] * n, np.int64),
        np.array(served_at if served_at is not None else [0] * n, np.int64),
    )
    return rows, upcoming


def price(*list_s):
    return lambda lists: np.array([*list_s, np.nan])[lists]


def plain_plan(lists, priorities, served_at, list_s, budget_s, lists_max):
    """The obvious loop over (query, cluster) pairs."""
    counts, spent_s = [0] * len(lists), 0.0
    for priority in sorted(set(priorities)):
        order = [i for i in range(len(lists)) if priorities[i] == priority]
        order.sort(key=lambda i: served_at[i])
        for turn in range(max(map(len, lists), default=0)):
            for i in order:
                if turn >= min(len(lists[i]), lists_max or len(lists[i])):
                    continue
                spent_s += list_s[lists[i][turn]]
                if sum(counts) and spent_s > budget_s:
                    return counts
                counts[i] += 1
                if spent_s > budget_s:
                    return counts
    return counts


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_plan_is_that_of_the_plain_loop(data):
    n = data.draw(st.integers(1, 8))
    lists = [data.draw(st.lists(st.integers(0, 5), max_size=40)) for _ in range(n)]
    priorities = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    served_at = data.draw(st.permutations(range(n)))
    # Whole numbers, so that the order of additions can't matter.
    prices = data.draw(st.lists(st.integers(1, 9), min_size=6, max_size=6))
    budget_s = data.draw(st.integers(0, 200))
    lists_max = data.draw(st.none() | st.integers(1, 20))
    rows, upcoming = make(lists, priorities, served_at)
    planned = plan_substage(rows, upcoming, price(*prices), budget_s, lists_max)
    assert planned.tolist() == plain_plan(lists, priorities, served_at, prices, budget_s, lists_max)


def test_a_list_dearer_than_the_budget_is_still_taken():
    rows, upcoming = make([[0], [1]])
    assert plan_substage(rows, upcoming, price(9.0, 9.0), 0.1).sum() == 1
    assert plan_substage(rows, upcoming, price(9.0, 9.0), -1.0).sum() == 1


def test_an_endless_budget_takes_everything():
    rows, upcoming = make([[0, 1, 1], [], [1]])
    assert plan_substage(rows, upcoming, price(9.0, 9.0), math.inf).tolist() == [3, 0, 1]


def test_the_round_goes_on_where_the_budget_cut_it():
    lists, served_at = [[0] * 6 for _ in range(4)], np.zeros(4, np.int64)
    total = np.zeros(4, np.int64)
    for _ in range(8):  # three scans a step over four rows: 24 scans
        rows, upcoming = make(lists, served_at=served_at)
        counts = plan_substage(rows, upcoming, price(1.0), 3.0)
        served_at = served_after(counts, served_at)
        lists = [row[n:] for row, n in zip(lists, counts, strict=True)]
        total += counts
        assert total.max() - total.min() <= 1
    assert total.tolist() == [6, 6, 6, 6]


def test_a_lower_class_gets_what_the_higher_one_leaves():
    rows, upcoming = make([[0, 0], [0, 0], [0, 0]], priorities=[2, 0, 1])
    plan = plan_substage(rows, upcoming, price(1.0), 3.0)
    assert plan.tolist() == [0, 2, 1]
