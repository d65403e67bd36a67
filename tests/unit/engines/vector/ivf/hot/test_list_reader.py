import gc
import weakref

import faiss
import numpy as np
import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.hot import list_reader
from heddle.engines.vector.ivf.hot.list_reader import ListReader
from heddle.engines.vector.ivf.live_index import LiveIndex


def index_of(tools, kind):
    return LiveIndex.build(tools.Source(tools.clustered(4000)), kind=kind)


@pytest.mark.parametrize("kind", IndexKind)
def test_any_piece_of_a_list_is_what_faiss_says_it_is(tools, kind):
    live = index_of(tools, kind)
    ivf = live.ivf
    reader = ListReader(ivf)
    theirs = np.empty(tools.dims, np.float32)
    sizes = reader.sizes()
    assert sizes.sum() == 4000
    for number in (int(sizes.argmax()), int(sizes.argmin()), 1):
        size = int(sizes[number])
        for first in range(0, size, 64):
            stop = min(first + 64, size)
            mine = reader.read(number, first, stop)
            labels = reader.labels(number, first, stop)
            assert len(mine) == len(labels) == stop - first
            for row in range(first, stop):
                ivf.reconstruct_from_offset(number, row, faiss.swig_ptr(theirs))
                np.testing.assert_array_equal(mine[row - first], theirs)
                assert labels[row - first] == ivf.invlists.get_single_id(number, row)


@pytest.mark.parametrize("kind", IndexKind)
def test_a_reader_lets_go_of_its_index_at_once(tools, kind):
    live = index_of(tools, kind)
    reader = ListReader(live.ivf)
    held = weakref.ref(reader)
    gc.disable()
    try:
        del reader
        assert held() is None
    finally:
        gc.enable()


def test_panoramas_lists_of_several_batches_are_read(tools):
    one_list = faiss.IndexIVFFlatPanorama(faiss.IndexFlatL2(tools.dims), tools.dims, 1, 8)
    vectors = tools.clustered(3000)
    one_list.train(vectors)
    one_list.add(vectors)
    assert one_list.batch_size < 3000
    read = ListReader(one_list).read(0, 960, 2112)
    np.testing.assert_array_equal(read, vectors[960:2112])


def test_a_faiss_with_another_layout_is_refused(tools, monkeypatch):
    live = index_of(tools, IndexKind.PQ)
    order = list_reader._half_byte_order

    def shuffled(packer):
        return np.roll(order(packer), 2)

    monkeypatch.setattr(list_reader, "_half_byte_order", shuffled)
    with pytest.raises(ConfigError, match="use hot_clusters off"):
        ListReader(live.ivf)


def test_panoramas_uneven_pieces_are_refused(tools):
    vectors = tools.clustered(400, dims=20)
    ivf = faiss.IndexIVFFlatPanorama(faiss.IndexFlatL2(20), 20, 4, 8)
    ivf.train(vectors)
    ivf.add(vectors)
    with pytest.raises(ConfigError, match="20 dimensions don't fall into 8 equal pieces"):
        ListReader(ivf)
