"""What an index takes is planned by its kind, and none is made without the memory for it."""

import numpy as np
import pytest

from heddle.core.errors import StorageError
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.files.index_bytes import (
    build_bytes,
    check_memory,
    device_bytes,
    index_bytes,
    kind_of,
    mode_of,
)
from heddle.engines.vector.files.index_kind import EXHAUSTIVE_BELOW, IndexKind, SearchMode
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.ivf.hot.build import CPU, build_hot_clusters
from heddle.engines.vector.ivf.index_file import write_index
from heddle.engines.vector.ivf.live_index import LiveIndex

MILLION, DIMS = 1_000_000, 384


def test_a_million_vectors_are_planned_as_they_are_measured():
    # `heddle bench index-growth`: 1.0 GB, a graph's edges among it.
    codes, whole, graph = (index_bytes(mode, MILLION, DIMS) for mode in SearchMode)
    assert 0.8e9 < codes < 1.0e9
    assert 0.9e9 < graph < 1.2e9
    assert whole > 4 * MILLION * DIMS


@pytest.mark.parametrize("mode", [SearchMode.AUTO, SearchMode.EXACT])
def test_what_a_file_holds_is_what_is_planned(tools, tmp_path, mode):
    count = EXHAUSTIVE_BELOW + 500
    source = tools.Source(tools.clustered(count))
    kind = IndexKind.PQ if mode is SearchMode.AUTO else IndexKind.PANORAMA
    live = LiveIndex.build(source, mode, kind)
    write_index(tmp_path, live, source)
    held = sum(path.stat().st_size for path in (tmp_path / "index").glob("*-*"))
    assert mode_of(tmp_path) is mode
    assert kind_of(tmp_path) is kind
    centroids = 4 * live.nlist * tools.dims
    assert held - centroids < 1.1 * index_bytes(mode, count, tools.dims) < 2 * held


def test_what_hot_clusters_hold_is_what_is_planned(tools):
    count = EXHAUSTIVE_BELOW + 500
    live = LiveIndex.build(tools.Source(tools.clustered(count)))
    hot = build_hot_clusters(live.ivf, 1.0, CPU, tools.Clock())
    planned = device_bytes(SearchMode.EXACT, count, tools.dims)
    assert hot.nbytes / 2 < planned < 1.2 * hot.nbytes
    assert device_bytes(SearchMode.GRAPH, count, tools.dims) == 0
    # on a GPU codes are decoded into half precision
    codes, whole = (
        device_bytes(mode, MILLION, DIMS) for mode in (SearchMode.AUTO, SearchMode.EXACT)
    )
    assert 0.5 < codes / whole < 0.51


def test_a_corpus_is_planned_as_it_is_searched(tmp_path):
    assert mode_of(tmp_path) is SearchMode.AUTO
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "manifest.json").write_text("{}")
    assert mode_of(tmp_path) is SearchMode.AUTO  # it will be built again
    graph_path(tmp_path).touch()
    assert mode_of(tmp_path) is SearchMode.GRAPH


def test_without_the_memory_for_it_no_other_index_is_made(tools, caplog):
    source = tools.Source(tools.clustered(500))
    left = [1000]

    def make():
        check_memory(source, SearchMode.GRAPH, lambda: left[0])
        return "another"

    clock = tools.Clock()
    rebuild = Rebuild(make, clock)
    rebuild.start()
    rebuild.wait()
    assert "MiB are left" in rebuild.problem
    assert rebuild.problem in caplog.text
    assert not rebuild.is_ready
    left[0], clock.time_s = build_bytes(SearchMode.GRAPH, 500, tools.dims), 1e6
    assert rebuild.is_due
    rebuild.start()
    rebuild.wait()
    assert rebuild.take() == "another"


def test_memory_is_asked_for_by_the_corpus_as_it_is(tools):
    source = tools.Source(tools.clustered(500))
    needed = build_bytes(SearchMode.EXACT, 500, tools.dims)
    check_memory(source, SearchMode.EXACT, lambda: needed)
    source.store_vectors(range(501, 701), np.ones((200, tools.dims), np.float32))
    with pytest.raises(StorageError, match="memory limit"):
        check_memory(source, SearchMode.EXACT, lambda: needed)
