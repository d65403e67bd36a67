import numpy as np
import pytest

from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.hot.block_tier import BlockTier
from heddle.engines.vector.ivf.hot.build import CPU, build_hot_clusters
from heddle.engines.vector.ivf.live_index import LiveIndex

K, NPROBE, SWAP_EVERY = 6, 12, 4


class Index:
    """An index, searched by the host alone or with hot clusters."""

    def __init__(self, tools, kind=IndexKind.FLAT, share=0.4, count=4000, **how):
        rng = np.random.default_rng(9)  # without duplicates, so that no two are equally far
        vectors = tools.clustered(count) + 1e-3 * rng.standard_normal((count, tools.dims))
        self.source = tools.Source(vectors.astype(np.float32))
        self.live = LiveIndex.build(self.source, kind=kind)
        self.corpus = FollowedIvf(self.live, self.source)
        self.scanner = self.corpus.scanner
        self.clock = tools.Clock()
        how.setdefault("is_always_used", True)
        self.hot = build_hot_clusters(
            self.live.ivf, share, CPU, self.clock, swap_every=SWAP_EVERY, **how
        )
        self.tools = tools

    def search(self, seed, scan, rows=3, per_step=5):
        """Return the sorted hits of a few queries, searched in steps."""
        queries = self.scanner.prepared(self.tools.clustered(rows, seed=seed))
        lists = self.scanner.coarse(queries, NPROBE)
        distances = np.full((rows, self.scanner.heap_size(K)), np.inf, np.float32)
        labels = np.full(distances.shape, -1, np.int64)
        for first in range(0, NPROBE, per_step):
            scan(queries, lists[:, first : first + per_step], distances, labels)
        return self.scanner.hits(queries, distances, labels, K)

    def host_scan(self, *arguments):
        self.scanner.scan(*arguments)

    def hot_scan(self, queries, lists, distances, labels):
        self.hot.scan(queries, lists, distances, labels, self.host_scan)

    def warm(self):
        for seed in range(12):
            self.search(seed, self.hot_scan)
        assert self.hot.counts.on_device > 0, "nothing was scanned on the device"


@pytest.mark.parametrize("kind", [IndexKind.FLAT, IndexKind.PANORAMA])
def test_hits_do_not_depend_on_where_a_list_lies(tools, kind):
    index = Index(tools, kind)
    index.warm()
    for seed in range(20, 30):
        host = index.search(seed, index.host_scan)
        hot = index.search(seed, index.hot_scan)
        np.testing.assert_array_equal(hot[1], host[1])
        np.testing.assert_allclose(hot[0], host[0], atol=1e-5)


def test_product_codes_find_nearly_the_same(tools):
    """Here distances to codes aren't rounded to 8 bits, so the last candidates may differ."""
    index = Index(tools, IndexKind.PQ)
    index.warm()
    equal = []
    for seed in range(20, 40):
        host = index.search(seed, index.host_scan)
        equal.append((index.search(seed, index.hot_scan)[1] == host[1]).mean())
    assert np.mean(equal) > 0.9


def test_the_heap_that_faiss_goes_on_with_has_its_farthest_entry_first(tools):
    index = Index(tools)
    index.warm()
    queries = tools.clustered(4, seed=50)
    lists = index.scanner.coarse(queries, NPROBE)
    distances = np.full((4, K), np.inf, np.float32)
    labels = np.full((4, K), -1, np.int64)
    index.hot_scan(queries, lists, distances, labels)
    assert (np.diff(distances, axis=1) <= 0).all()


def test_a_device_that_holds_everything_leaves_the_host_nothing(tools):
    index = Index(tools, share=1.0)
    for seed in range(40):
        index.search(seed, index.hot_scan, rows=8)
    before = index.hot.counts.on_device
    scanned = []
    index.host_scan = lambda *arguments: scanned.append(arguments)
    index.search(3, index.hot_scan)
    assert index.hot.counts.on_device - before == 3 * NPROBE
    assert not scanned


class SlowTier(BlockTier):
    """A device whose copies are over only when a test says so."""

    is_slow = True

    def copy_in(self, stage, blocks):
        super().copy_in(stage, blocks)
        tier = self

        class Event:
            def query(self):
                return not tier.is_slow

        stage.copied = Event()


def test_a_list_on_its_way_is_scanned_on_the_host(tools, monkeypatch):
    monkeypatch.setattr("heddle.engines.vector.ivf.hot.build.BlockTier", SlowTier)
    index = Index(tools)
    for seed in range(12):
        index.search(seed, index.hot_scan)
    assert index.hot.counts.on_device == 0, "a copy that isn't over was scanned"
    monkeypatch.setattr(SlowTier, "is_slow", False)
    index.warm()
    host, hot = index.search(30, index.host_scan), index.search(30, index.hot_scan)
    np.testing.assert_array_equal(hot[1], host[1])


def test_at_most_one_copy_starts_in_a_substage(tools, monkeypatch):
    copies = []
    copy_in = BlockTier.copy_in

    def counted(self, stage, blocks):
        copies.append(len(blocks))
        copy_in(self, stage, blocks)

    monkeypatch.setattr(BlockTier, "copy_in", counted)
    index = Index(tools, share=1.0)
    for seed in range(10):
        before = len(copies)
        index.search(seed, index.hot_scan, per_step=NPROBE)
        assert len(copies) - before <= 1
    assert copies
    assert max(copies) <= 8


def test_lists_that_are_no_longer_asked_for_make_room(tools):
    index = Index(tools, share=0.15)
    queries = index.scanner.prepared(index.source.rows[1][1][None, :])
    first, second = np.array([[0, 1, 2, 3]]), np.array([[10, 11, 12, 13]])
    for lists in (first, second):
        for _ in range(20 * SWAP_EVERY):
            heaps = (np.full((1, K), np.inf, np.float32), np.full((1, K), -1, np.int64))
            index.hot_scan(queries, lists, *heaps)
        before = index.hot.counts.on_device
        heaps = (np.full((1, K), np.inf, np.float32), np.full((1, K), -1, np.int64))
        index.hot_scan(queries, lists, *heaps)
        assert index.hot.counts.on_device - before == 4


def test_what_was_copied_before_the_index_changed_is_never_scanned(tools):
    index = Index(tools)
    index.warm()
    new = tools.clustered(400, seed=77)
    index.source.store_vectors(range(1, 401), new)  # other vectors under the same ids
    while not index.corpus.covers(index.source.revision):
        index.corpus.follow(in_flight=False)
    index.hot.index_changed()
    for seed in range(12):
        host, hot = index.search(seed, index.host_scan), index.search(seed, index.hot_scan)
        np.testing.assert_allclose(hot[0], host[0], atol=1e-5)
    assert index.hot.counts.on_device > 0


def test_a_device_that_is_slower_than_the_host_is_left_alone(tools, monkeypatch):
    index = Index(tools, is_always_used=False)
    scan = BlockTier.scan

    def slow_scan(*arguments):
        index.clock.time_s += 0.5
        return scan(*arguments)

    def quick_scan(*arguments):
        index.clock.time_s += 1e-4
        index.scanner.scan(*arguments)

    monkeypatch.setattr(BlockTier, "scan", slow_scan)
    index.host_scan = quick_scan
    for seed in range(60):
        index.search(seed, index.hot_scan)
    counts = index.hot.counts
    assert counts.ready > 0.3 * counts.probed
    assert counts.on_device < 0.2 * counts.ready
