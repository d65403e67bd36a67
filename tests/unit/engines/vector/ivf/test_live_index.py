import numpy as np
import pytest

from heddle.engines.vector.files import index_kind
from heddle.engines.vector.files.index_kind import (
    IndexKind,
    SearchMode,
    kind_for,
    nprobe_for,
    panorama_levels,
)
from heddle.engines.vector.ivf import live_index
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.live_index import LiveIndex, nlist_for
from heddle.engines.vector.ivf.stepping_check import one_shot


@pytest.mark.parametrize(
    ("count", "mode", "kind", "nlist", "nprobe"),
    [
        (1, "auto", "flat", 1, 1),
        (6400, "auto", "flat", 100, 100),
        (6400, "exact", "flat", 100, 100),
        (20_000, "auto", "pq", 283, 96),
        (20_000, "exact", "panorama", 283, 283),
        (1_000_000, "auto", "pq", 2000, 96),
    ],
)
def test_the_shape_follows_the_count(count, mode, kind, nlist, nprobe):
    assert kind_for(count, SearchMode(mode)) is IndexKind(kind)
    assert nlist_for(count) == nlist
    assert nprobe_for(IndexKind(kind), nlist) == nprobe


@pytest.mark.parametrize(
    ("dims", "levels"),
    [(384, 6), (768, 6), (96, 6), (1024, 8), (512, 8), (128, 8), (320, 5), (50, 5), (17, 6)],
)
def test_panorama_cuts_vectors_into_about_six_equal_pieces_of_full_registers(dims, levels):
    assert panorama_levels(dims) == levels


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
    assert not live.is_outgrown
    source.store_vectors(range(641, 3641), tools.clustered(3000))
    live.follow(source)
    assert live.is_outgrown


@pytest.mark.parametrize("kind", list(IndexKind), ids=lambda kind: kind.value)
def test_every_kind_follows_what_is_written_and_deleted(tools, kind):
    vectors = tools.clustered(1500)
    source = tools.Source(vectors[:1000])
    live = LiveIndex.build(source, kind=kind)
    source.delete(range(1, 1000, 3))
    source.store_vectors(range(1001, 1501), vectors[1000:])
    source.store_vectors([1200], -vectors[1199:1200])  # written again, with another vector
    live.follow(source)
    assert live.count == source.vector_count == 1000 - 333 + 500

    asked = np.array([1, 2, 1100, 1200, 1500])
    queries = np.concatenate([vectors[asked - 1], -vectors[1199:1200]])
    corpus = FollowedIvf(live, source)
    distances, labels = corpus.scanner.search_at_once(queries, 3, live.nlist)
    assert np.isin(labels, list(source.rows)).all()
    assert (distances[[1, 2, 4, 5], 0] < 1e-4).all()
    assert labels[5, 0] == 1200
    assert 1200 not in labels[3]


def test_a_corpus_that_crosses_the_bound_wants_another_kind(tools, monkeypatch):
    monkeypatch.setattr(index_kind, "EXHAUSTIVE_BELOW", 900)
    source = tools.Source(tools.clustered(800))
    live = LiveIndex.build(source)
    assert live.kind is IndexKind.FLAT
    source.store_vectors(range(801, 1001), tools.clustered(200, seed=2))
    live.follow(source)
    assert live.is_outgrown
    live = LiveIndex.build(source)
    assert live.kind is IndexKind.PQ
    source.delete(range(1, 401))
    live.follow(source)  # 600 left: not yet
    assert not live.is_outgrown
    source.delete(range(401, 601))
    live.follow(source)
    assert live.is_outgrown


def test_rows_of_what_was_replaced_ask_for_a_new_index(tools):
    source = tools.Source(tools.clustered(1000))
    live = LiveIndex.build(source, kind=IndexKind.PQ)
    for seed in range(2):
        source.store_vectors(range(1, 1001), tools.clustered(1000, seed=seed))
        live.follow(source)
    assert live.refine.rows == 3000
    assert live.is_outgrown


def test_rows_that_a_search_may_hold_are_not_given_away_under_it(tools):
    source = tools.Source(tools.clustered(1000))
    live = LiveIndex.build(source, kind=IndexKind.PQ)
    live.revision = 0  # as if its last vectors had been written while it was built
    assert live.advance(source, may_delete=False) == 0
    assert (live.revision, live.refine.rows) == (0, 1000)
    assert live.advance(source) == 1000
    assert (live.revision, live.count) == (1, 1000)


def test_a_lane_takes_in_less_at_once_the_more_lists_there_are(tools, monkeypatch):
    source = tools.Source(tools.clustered(1000))
    live = LiveIndex.build(source)
    monkeypatch.setattr(live_index, "PIECE_COMPARISONS", 40 * live.nlist)
    source.store_vectors(range(1001, 1101), tools.clustered(100, seed=9))
    assert [live.advance(source) for _ in range(3)] == [40, 40, 20]
    assert live.revision == source.revision
