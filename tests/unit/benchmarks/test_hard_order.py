"""The order that ours is compared with is the paper's."""

import numpy as np

from benchmarks.support.hard_order import hard_order
from heddle.engines.vector.ivf.early_stop.orders import Past


def test_cached_hits_come_first_then_what_was_planned_before():
    lists = np.array([4, 7, 1, 9, 3])
    past = Past(np.array([1.0, 0.0], np.float32), np.array([9, 9, 9, 1, 2]))
    # 1 and 9 hold hits, 3 was planned, 4 and 7 are new; by distance within each.
    assert lists[hard_order(lists, past, np.array([9, 1, 3, 2, 6]))].tolist() == [1, 9, 3, 4, 7]
