from functools import partial

import numpy as np
import pytest

from heddle.core.frames import Done
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.hot.build import CPU, build_hot_clusters
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex


def engine_over(tools, source, *, is_hot):
    make = partial(
        build_hot_clusters,
        share=0.5,
        device=CPU,
        clock=tools.Clock(),
        swap_every=3,
        is_always_used=True,
    )
    live = LiveIndex.build(source, kind=IndexKind.PANORAMA)
    corpus = FollowedIvf(live, source, make_hot=make if is_hot else None)
    return ivf_engine("vector", 0, corpus, tools.Clock(), lists_per_step=4)


@pytest.fixture
def source(tools):
    rng = np.random.default_rng(3)
    vectors = tools.clustered(3000) + 1e-3 * rng.standard_normal((3000, tools.dims))
    return tools.Source(vectors.astype(np.float32))


def searched(tools, engine, seed):
    engine.apply(tools.search(seed, tools.clustered(3, seed=seed), topk=7, nprobe=20))
    event = tools.terminals(tools.drain(engine))[seed]
    assert isinstance(event, Done), event
    return event.result


def test_a_search_says_what_the_device_scanned_and_finds_the_same(tools, source):
    hot, plain = engine_over(tools, source, is_hot=True), engine_over(tools, source, is_hot=False)
    on_device = []
    for seed in range(1, 20):
        mine, theirs = searched(tools, hot, seed), searched(tools, plain, seed)
        np.testing.assert_array_equal(mine.labels, theirs.labels)
        assert theirs.counts.lists_on_device == 0
        on_device.append(mine.counts.lists_on_device)
    assert max(on_device) > 10
    assert max(on_device) <= 3 * 20


def test_vectors_that_are_stored_meanwhile_are_found(tools, source):
    hot = engine_over(tools, source, is_hot=True)
    for seed in range(1, 12):
        searched(tools, hot, seed)
    query = tools.clustered(1, seed=500)
    hot.apply(tools.ingest(900, [5001], query))
    tools.drain(hot)
    hot.apply(tools.search(901, query, topk=1, nprobe=20))
    found = tools.terminals(tools.drain(hot))[901].result
    assert found.labels.tolist() == [[5001]]
