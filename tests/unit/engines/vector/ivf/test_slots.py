import numpy as np
import pytest

from heddle.engines.vector.ivf.slots import SlotTable


def filled(rows, width=3):
    table = SlotTable(2, 2, 4)
    for row in range(rows):
        lists = np.arange(width)[None] + 10 * row
        table.add([row], [0], [1], np.full((1, 4), row, np.float32), lists, [7 * row])
    return table


@pytest.mark.parametrize("gone", [[], [0], [4], [0, 4], [1, 2, 3], [0, 1, 2, 3, 4]])
def test_rows_stay_dense_and_whole_when_others_leave(gone):
    table = filled(5)
    table.distances[:5, 0] = np.arange(5)
    table.remove(np.array(gone, np.int64))
    kept = sorted(set(range(5)) - set(gone))
    assert table.count == len(kept)
    assert sorted(table.task_ids[: table.count].tolist()) == kept
    for row in range(table.count):
        task_id = table.task_ids[row]
        assert table.queries[row, 0] == table.distances[row, 0] == task_id
        assert table.ranks[row] == 7 * task_id
        assert table.lists[row].tolist() == [10 * task_id, 10 * task_id + 1, 10 * task_id + 2]


def test_growing_keeps_the_rows():
    table = filled(100)
    assert table.task_ids[:100].tolist() == list(range(100))
    table.add([100], [7], [0], np.ones((1, 4), np.float32), np.arange(9)[None], [0])
    assert table.upcoming(np.array([99, 100])).tolist() == [
        [990, 991, 992] + [-1] * 6,
        list(range(9)),
    ]


def test_take_gives_ragged_lists_and_advances():
    table = filled(3)
    rows, lists = table.take(np.array([2, 0, 1]))
    assert rows.tolist() == [0, 2]
    assert lists.tolist() == [[0, 1], [20, -1]]
    rows, lists = table.take(np.array([1, 3, 1]))
    assert rows.tolist() == [0, 1, 2]
    assert lists.tolist() == [[2, -1, -1], [10, 11, 12], [21, -1, -1]]
    assert table.finished().tolist() == [0, 1]


def test_a_reused_row_starts_with_an_empty_heap():
    table = filled(1)
    table.distances[0], table.labels[0] = 0.5, 9
    table.remove(np.array([0]))
    table.add([1], [0], [0], np.ones((1, 4), np.float32), np.arange(2)[None], [0])
    assert np.isinf(table.distances[0]).all()
    assert (table.labels[0] == -1).all()
    assert table.upcoming(np.array([0])).tolist() == [[0, 1]]
