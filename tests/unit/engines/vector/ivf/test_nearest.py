"""The nearest of many: as sorting pairs would have it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.vector.ivf.nearest import nearest
from heddle.engines.vector.search import ascending

NUMBER_MAX = 2**32 - 2


@pytest.mark.slow
@given(data=st.data(), rows=st.integers(1, 3), width=st.integers(0, 12))
def test_it_is_the_beginning_of_all_in_order(data, rows, width):
    far = st.sampled_from([0.0, 1e-45, 0.25, 1.0, 3e38])  # few values, so that there are ties
    hit = st.tuples(far, st.integers(0, 5) | st.just(NUMBER_MAX))
    pairs = st.lists(hit | st.just((np.inf, -1)), min_size=width, max_size=width)
    drawn = np.array([data.draw(pairs) for _ in range(rows)], float).reshape(rows, width, 2)
    distances, numbers = drawn[..., 0].astype(np.float32), drawn[..., 1].astype(np.int64)
    count = data.draw(st.integers(0, width))
    found = nearest(distances, numbers, count)
    for of_all, of_nearest in zip(ascending(distances, numbers), found, strict=True):
        assert np.array_equal(of_all[:, :count], of_nearest)
        assert of_all.dtype == of_nearest.dtype


def test_rows_may_share_their_numbers():
    distances = np.array([[3, 1, 2], [1, 1, 0]], np.float32)
    found = nearest(distances, np.array([7, 8, 9]), 2)
    assert found[0].tolist() == [[1, 2], [0, 1]]
    assert found[1].tolist() == [[8, 9], [9, 7]]
