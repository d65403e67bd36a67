"""What brings a corpus's changes to inverted lists, where that fails half-way."""

import faiss
import numpy as np
import pytest

from heddle.core.errors import StorageError
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.live_index import LiveIndex, nlist_for
from heddle.engines.vector.ivf.stepping_check import one_shot


def test_what_fails_half_way_leaves_no_stale_address(tools, monkeypatch):
    source = tools.Source(tools.clustered(500))
    corpus = FollowedIvf(LiveIndex.build(source), source)
    queries = tools.clustered(6, seed=3)
    corpus.scanner.search_at_once(
        queries, 5, len(corpus.scanner.list_sizes)
    )  # now every list's address is known
    source.store_vectors(range(501, 2501), tools.clustered(2000, seed=5))
    add = corpus.live.index.add_with_ids

    def add_and_fail(vectors, labels):
        add(vectors, labels)
        raise MemoryError("no room")

    monkeypatch.setattr(corpus.live.index, "add_with_ids", add_and_fail)
    with pytest.raises(MemoryError):
        corpus.follow(in_flight=False)
    monkeypatch.undo()
    found = corpus.scanner.search_at_once(queries, 5, len(corpus.scanner.list_sizes))
    expected = one_shot(corpus.live.index, queries, 5, len(corpus.scanner.list_sizes))
    np.testing.assert_array_equal(found[0], expected[0])


def test_a_device_hears_of_a_change_that_failed_half_way(tools, monkeypatch):
    class Device:
        changes = 0

        def index_changed(self):
            self.changes += 1

    device, source = Device(), tools.Source(tools.clustered(500))
    corpus = FollowedIvf(LiveIndex.build(source), source, make_hot=lambda ivf: device)
    source.delete([1])

    def refuse(*arguments):
        yield from ()
        raise StorageError("the disk failed")

    monkeypatch.setattr(source, "vectors", refuse)  # after the deletion
    with pytest.raises(StorageError):
        corpus.follow(in_flight=False)
    assert device.changes == 1
    assert corpus.scanner.list_sizes.sum() == 499


def test_a_device_has_room_for_the_lists_of_one_index(tools):
    class Device:
        used = 0

        def __init__(self, ivf):
            if Device.used:
                raise RuntimeError("out of memory")
            Device.used += 1
            self.lists = ivf.nlist

        def __del__(self):
            Device.used -= 1

        def index_changed(self):
            """Copy nothing."""

    source = tools.Source(tools.clustered(300))
    rebuild = Rebuild(lambda: LiveIndex.build(source), tools.Clock())
    corpus = FollowedIvf(LiveIndex.build(source), source, rebuild=rebuild, make_hot=Device)
    assert corpus.scanner.hot.lists == nlist_for(300)
    source.store_vectors(range(301, 1501), tools.clustered(1200, seed=5))
    while corpus.live.nlist == nlist_for(300):
        corpus.follow(in_flight=False)
        rebuild.wait()
        assert rebuild.problem == ""
    assert corpus.scanner.hot.lists == corpus.live.nlist


def test_a_first_index_that_fails_half_way_is_served_when_it_is_whole(tools, monkeypatch):
    source = tools.Source()
    corpus = FollowedIvf(LiveIndex.build(source), source)
    vectors = tools.clustered(50)
    source.store_vectors(range(1, 51), vectors)

    def fail(index, vectors, labels):
        raise MemoryError("no room")

    monkeypatch.setattr(faiss.IndexIVFFlat, "add_with_ids", fail)
    with pytest.raises(MemoryError):
        corpus.follow(in_flight=False)
    monkeypatch.undo()
    corpus.follow(in_flight=False)
    assert corpus.covers(source.revision)
    _, labels = corpus.scanner.search_at_once(vectors[:3], 1, 1)
    assert labels.tolist() == [[1], [2], [3]]
