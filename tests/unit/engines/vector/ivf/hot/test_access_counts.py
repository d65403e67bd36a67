import numpy as np

from heddle.engines.vector.ivf.hot.access_counts import AccessCounts

NOTHING_THERE = np.zeros(4, bool)
ONE_BLOCK_EACH = np.ones(4, np.int64)


def counts_of(*lists):
    counts = AccessCounts(4)
    counts.note(np.array([lists]))
    return counts


def test_the_most_scanned_lists_come_first_and_no_list_counts_for_nothing():
    counts = counts_of(2, 2, 2, 1, 1, 3, -1, -1, -1, -1)
    np.testing.assert_array_equal(counts.hottest(ONE_BLOCK_EACH, 4, NOTHING_THERE), [2, 1, 3])


def test_only_what_fits_is_named():
    counts = counts_of(0, 0, 0, 0, 2, 2, 2, 1, 1, 3)
    blocks = np.array([9, 2, 3, 1])  # list 0 is larger than all the device has
    np.testing.assert_array_equal(counts.hottest(blocks, 5, NOTHING_THERE), [2, 1])


def test_the_past_fades():
    counts = counts_of(0, 0, 0)
    for _ in range(5):
        counts.fade()
    counts.note(np.array([1, 1]))
    np.testing.assert_array_equal(counts.hottest(ONE_BLOCK_EACH, 1, NOTHING_THERE), [1])


def test_a_list_that_is_there_yields_only_to_a_clearly_hotter_one():
    is_resident = np.array([True, False, False, False])
    close = counts_of(*[0] * 10, *[1] * 11)
    np.testing.assert_array_equal(close.hottest(ONE_BLOCK_EACH, 1, is_resident), [0])
    clear = counts_of(*[0] * 10, *[1] * 13)
    np.testing.assert_array_equal(clear.hottest(ONE_BLOCK_EACH, 1, is_resident), [1])
