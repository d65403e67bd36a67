import numpy as np
import pytest

from heddle.engines.vector import live_index
from heddle.engines.vector.live_index import LiveIndex, nlist_for, nprobe_for
from heddle.engines.vector.worker import one_shot


@pytest.mark.parametrize(
    ("count", "nlist", "nprobe"),
    [(1, 1, 1), (100, 1, 1), (6400, 100, 100), (20_000, 283, 64), (1_000_000, 2000, 64)],
)
def test_the_shape_follows_the_count(count, nlist, nprobe):
    assert nlist_for(count) == nlist
    assert nprobe_for(count, nlist) == nprobe


def test_replaying_equals_adding_everything_at_once(tools):
    vectors = tools.clustered(1500)
    source = tools.Source(vectors[:1000])
    followed = LiveIndex.build(source)
    source.store_vectors(range(1001, 1301), vectors[1000:1300])
    followed.follow(source)
    source.delete(range(1, 1000, 7))
    source.store_vectors(range(1301, 1501), vectors[1300:])
    source.store_vectors([2], vectors[700:701])
    assert followed.follow(source) == 143 + 200 + 1
    assert followed.revision == source.revision
    assert followed.follow(source) == 0

    whole = LiveIndex.build(tools.Source(vectors[:1000]))  # the same centroids
    whole.index.reset()
    for batch in source.vectors():
        whole.index.add_with_ids(batch.vectors, batch.chunk_ids)
    assert followed.count == whole.count == source.vector_count
    queries = tools.clustered(30, seed=4)
    for nprobe in (2, followed.nlist):
        distances, labels = one_shot(followed.index, queries, 9, nprobe)
        expected_distances, expected_labels = one_shot(whole.index, queries, 9, nprobe)
        np.testing.assert_array_equal(distances, expected_distances)
        np.testing.assert_array_equal(labels, expected_labels)


def test_equal_corpora_give_equal_indexes(tools, monkeypatch):
    monkeypatch.setattr(live_index, "SAMPLE_PER_LIST", 20)
    source = tools.Source(tools.clustered(1500))
    one, two = LiveIndex.build(source), LiveIndex.build(source)
    np.testing.assert_array_equal(
        one.index.quantizer.reconstruct_n(0, one.nlist),
        two.index.quantizer.reconstruct_n(0, two.nlist),
    )


def test_equal_vectors_only(tools):
    live = LiveIndex.build(tools.Source(np.repeat(tools.clustered(8)[:1], 300, axis=0)))
    assert live.count == 300
    distances, _ = one_shot(live.index, tools.clustered(8)[:1], 300, live.nlist)
    assert (distances == 0).all()


def test_a_corpus_that_has_outgrown_its_lists_says_so(tools):
    source = tools.Source(tools.clustered(640))
    live = LiveIndex.build(source)
    assert not live.is_lopsided
    source.store_vectors(range(641, 3641), tools.clustered(3000))
    live.follow(source)
    assert live.is_lopsided
