import numpy as np

from heddle.engines.vector.ivf.early_stop.past_searches import (
    REQUESTS_KEPT,
    PastSearch,
    PastSearches,
)


def found(*query):
    return PastSearch(np.array(query, np.float32), np.arange(3))


def test_the_search_that_asked_for_the_nearest_tells():
    pasts = PastSearches()
    near, far = found(1.0, 0.0), found(0.0, 1.0)
    pasts.add(7, near)
    pasts.add(7, far)
    assert pasts.nearest(7, np.array([0.9, 0.1], np.float32)) is near
    assert pasts.nearest(8, np.array([0.9, 0.1], np.float32)) is None  # another request's


def test_requests_that_searched_long_ago_are_forgotten():
    pasts = PastSearches()
    for request in range(REQUESTS_KEPT):
        pasts.add(request, found(1.0))
    pasts.add(0, found(1.0))
    pasts.add(REQUESTS_KEPT, found(1.0))
    query = np.ones(1, np.float32)
    assert pasts.nearest(0, query) is not None
    assert pasts.nearest(1, query) is None
