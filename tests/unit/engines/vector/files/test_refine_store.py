import numpy as np
import pytest

from heddle.core.errors import InputError
from heddle.engines.vector.files.refine_store import RefineStore


def halves(tools, count, seed=0):
    return tools.clustered(count, seed=seed).astype(np.float16).astype(np.float32)


def test_rows_are_found_by_their_chunk_and_compared_exactly(tools, tmp_path):
    vectors, queries = halves(tools, 60), tools.clustered(4, seed=1)
    store = RefineStore.empty(tools.dims)
    assert store.append(np.arange(100, 140), vectors[:40]).tolist() == list(range(40))
    store.write(tmp_path / "rows")
    store = RefineStore.open(tmp_path / "rows", tools.dims)  # some rows mapped, some in memory
    assert store.append(np.arange(200, 220), vectors[40:]).tolist() == list(range(40, 60))
    assert sorted(store.rows_of(np.array([101, 219, 7]))) == [1, 59]
    rows = np.array([[1, 59, -1], [0, 40, 41], [2, 3, 4], [-1, -1, -1]])
    expected = ((queries[:, None] - vectors[rows]) ** 2).sum(-1)
    expected[rows < 0] = np.inf
    np.testing.assert_allclose(store.distances(queries, rows), expected, rtol=1e-5)
    assert store.chunk_ids_at(rows)[0].tolist() == [101, 219, -1]


def test_what_is_forgotten_stays_forgotten_in_the_file(tools, tmp_path):
    store = RefineStore.empty(tools.dims)
    store.append(np.arange(1, 31), halves(tools, 30))
    store.forget(store.rows_of(np.array([5])))
    store.append(np.array([5]), halves(tools, 1, seed=9))
    assert store.rows_of(np.array([5])).tolist() == [30]
    store.write(tmp_path / "rows")
    again = RefineStore.open(tmp_path / "rows", tools.dims)
    assert again.rows == 31
    assert again.rows_of(np.array([5])).tolist() == [30]


@pytest.mark.parametrize("size", [0, 41])
def test_a_file_of_no_whole_rows_is_refused(tools, tmp_path, size):
    (tmp_path / "rows").write_bytes(b"x" * size)
    with pytest.raises(InputError, match="no store"):
        RefineStore.open(tmp_path / "rows", tools.dims)
