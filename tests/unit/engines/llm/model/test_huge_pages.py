"""Memory is moved into huge pages without a change of what lies there."""

import numpy as np

from heddle.engines.llm.model.huge_pages import HUGE_PAGE_BYTES, move_to_huge_pages, whole_pages


def test_only_pages_that_lie_wholly_in_spans_or_between_close_ones_are_moved():
    page = HUGE_PAGE_BYTES
    assert whole_pages([]) == []
    assert whole_pages([(page + 1, 2 * page)]) == []
    assert whole_pages([(page - 5, 3 * page + 5)]) == [(page, 3 * page)]
    close = [(3 * page // 2 + 64, 3 * page), (page, 3 * page // 2)]
    assert whole_pages(close) == [(page, 3 * page)]
    assert whole_pages([(0, page), (2 * page, 3 * page)]) == [(0, page), (2 * page, 3 * page)]


def test_what_lies_in_the_memory_stays():
    numbers = np.arange(HUGE_PAGE_BYTES, dtype=np.int64)
    first = numbers.ctypes.data
    moved = move_to_huge_pages([(first, first + numbers.nbytes)])
    assert 0 <= moved <= numbers.nbytes
    assert (numbers == np.arange(HUGE_PAGE_BYTES)).all()
