"""What a million vectors of 384 dimensions would take, by the bytes of the real structures."""

import faiss
import numpy as np
import pytest

from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.graph.graph_index import build_graph
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker
from heddle.engines.vector.ivf.live_index import LiveIndex, nlist_for
from heddle.engines.vector.ivf.slots import SlotTable

DIMS, MILLION = 384, 1_000_000
LIMIT = 1.2e9  # bytes
SEARCH_LIMIT = 256 * 1024
ROWS = 3000  # what is the same for any number of rows counts for too much in so few


@pytest.fixture(scope="module")
def vectors(tools):
    return tools.clustered(ROWS, dims=DIMS)


def lists_and_refine_bytes(tools, vectors, folder):
    live = LiveIndex.build(tools.Source(vectors), kind=IndexKind.PQ)
    live.refine.write(folder / "refine")
    return faiss.serialize_index(live.index).nbytes, (folder / "refine").stat().st_size


def graph_arrays(vectors):
    graph = build_graph(vectors, np.arange(len(vectors)))
    assert graph.neighbours.shape[1] == 32
    return graph


def test_a_million_vectors_with_a_refine_store_and_a_graph_fit(tools, vectors, tmp_path):
    lists, refine = lists_and_refine_bytes(tools, vectors, tmp_path)
    graph = graph_arrays(vectors)
    edges = graph.neighbours.nbytes + graph.labels.nbytes + graph.entries.nbytes
    a_million = MILLION / ROWS
    assert (lists + refine + edges) * a_million < LIMIT
    # A lane that searches by the graph has its vectors instead of lists and a refine store.
    assert (graph.vectors.nbytes + edges) * a_million < LIMIT


def test_a_search_of_lists_takes_little(tools):
    nlist = nlist_for(MILLION)
    table = SlotTable(10, 100, DIMS)
    one, queries = np.zeros(1, np.int64), np.zeros((1, DIMS), np.float32)
    table.add(one, one, one, queries, np.arange(nlist)[None, :], one)
    columns = [one for one in vars(table).values() if isinstance(one, np.ndarray)]
    assert len(columns) > 10
    taken = sum(column[0].nbytes for column in columns)
    assert nlist * 8 < taken < SEARCH_LIMIT


def test_a_search_of_a_graph_takes_little(vectors):
    assert NumbaWorker(LiveGraph(graph_arrays(vectors)), 2).bytes_per_search < SEARCH_LIMIT
