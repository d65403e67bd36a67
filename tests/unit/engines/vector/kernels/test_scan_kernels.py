import numpy as np
import pytest

from heddle.engines.vector.kernels.scan_kernels import centroid_distances


@pytest.mark.parametrize("count", [1, 3, 4, 5, 15, 16, 17, 18, 40])
def test_distances_to_any_number_of_centroids_for_any_number_of_queries(count):
    rng = np.random.default_rng(count)
    centroids, queries = (rng.standard_normal((n, 37), np.float32) for n in (count, 5))
    together, alone = (np.full((5, count), np.nan, np.float32) for _ in range(2))
    centroid_distances(centroids, queries, together)
    for i in range(5):
        centroid_distances(centroids, queries[i : i + 1], alone[i : i + 1])
    np.testing.assert_array_equal(together, alone)
    expected = ((queries[:, None].astype(float) - centroids) ** 2).sum(axis=2)
    np.testing.assert_allclose(together, expected, rtol=1e-5)
