import numpy as np

from heddle.engines.vector.ivf.shared_slots import SharedSlotTable


def filled(*rows):
    table = SharedSlotTable(2, 2, 4, None, 10)
    for i, lists in enumerate(rows):
        table.add([i], [0], [1], np.full((1, 4), i, np.float32), np.array([lists]), [i])
    return table


def test_rows_scan_what_they_want_of_the_lists():
    table = filled([3, 1, 2], [5, 1], [7])
    assert table.wanting.tolist() == [0, 2, 1, 1, 0, 1, 0, 1, 0, 0]
    rows, lists = table.take_shared(np.array([0, 1, 3]))
    assert rows.tolist() == [0, 1]
    assert lists.tolist() == [[1, 3], [1, -1]]
    assert table.lists_left.tolist() == [1, 1, 1]
    assert table.pending(0).tolist() == [2]
    assert table.wanting.tolist() == [0, 0, 1, 0, 0, 1, 0, 1, 0, 0]
    rows, lists = table.take_shared(np.array([1, 2, 7]))
    assert rows.tolist() == [0, 2]
    assert table.finished().tolist() == [0, 2]


def test_who_leaves_wants_nothing_any_more():
    table = filled([3, 1], [1, 2], [2, 4])
    table.remove(np.array([0]))
    assert table.wanting.tolist() == [0, 1, 2, 0, 1, 0, 0, 0, 0, 0]
    moved = table.task_ids[: table.count].tolist()
    assert sorted(moved) == [1, 2]
    assert table.pending(moved.index(2)).tolist() == [2, 4]
    table.add([3], [0], [1], np.ones((1, 4), np.float32), np.array([[9]]), [3])
    assert table.pending(2).tolist() == [9]
    table.take_shared(np.array([2, 4, 9]))  # the new row has nothing of who was there before
    assert table.lists_left.tolist() == [0, 1, 0]


def test_a_row_that_goes_on_wants_its_next_lists():
    table = SharedSlotTable(2, 2, 4, None, 10)
    lists = np.array([[4, 2, 0, 1, 3]])
    table.add([0], [0], [1], np.ones((1, 4), np.float32), lists, [0], 2)
    table.take_shared(np.array([2, 4]))
    assert table.widen(np.array([0])).tolist() == [2]
    assert table.pending(0).tolist() == [0, 1]
    assert table.wanting.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
