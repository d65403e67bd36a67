import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.vector.ivf.early_stop.known_hits import with_known

NAMES = st.lists(st.integers(0, 30), max_size=8, unique=True)


def heap(names, width):
    """Return a row with these labels, each as far as its name, and room left empty."""
    labels = np.full((1, width), -1, np.int64)
    labels[0, : len(names)] = names
    distances = np.where(labels < 0, np.inf, labels / 8).astype(np.float32)
    return distances, labels


@given(NAMES, NAMES)
def test_each_vector_counts_once_however_it_was_found(found, known):
    distances, labels = with_known(*heap(found, 8), *heap(known, 9))
    expected = sorted({*found, *known})
    assert labels[0, : len(expected)].tolist() == expected
    np.testing.assert_array_equal(distances[0, : len(expected)], np.array(expected) / 8)
    assert (labels[0, len(expected) :] == -1).all()
    assert np.isinf(distances[0, len(expected) :]).all()


def test_what_was_found_keeps_the_distance_that_it_was_found_at():
    distances, labels = with_known(
        np.array([[0.5, 0.25]], np.float32),
        np.array([[4, 7]]),
        np.array([[0.125, 0.75]], np.float32),
        np.array([[7, 1]]),
    )
    assert labels.tolist() == [[7, 4, 1, -1]]
    assert distances.tolist() == [[0.25, 0.5, 0.75, np.inf]]
    assert distances.dtype == np.float32
