"""The promise holds on searches that were held back, and saves clusters where it may."""

import numpy as np
import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.ivf.early_stop.hit_model import HitModel
from heddle.engines.vector.ivf.early_stop.scans import Scans
from heddle.engines.vector.ivf.early_stop.stop_rule import StopRule, stops
from tests.helpers.scan_in_turns import scan_in_turns

K, TURNS = 5, 24


def searches(count, seed, spread=1.0):
    """Vectors around centroids that come nearest first; `spread` blurs which one holds the hits."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(count):
        centroids = np.sort(rng.uniform(0.4, 1.4, TURNS))
        sizes = rng.integers(5, 30, TURNS)
        turn = np.repeat(np.arange(1, TURNS + 1), sizes)
        distances = np.abs(centroids[turn - 1] + 0.15 * spread * rng.standard_normal(len(turn)))
        kth, found = scan_in_turns(distances.astype(np.float32), turn, TURNS, K)
        parts.append(
            Scans(
                K,
                np.arange(TURNS + 1),
                centroids[None],
                sizes[None],
                np.zeros((1, TURNS)),
                np.diff(found)[None],
                kth[None],
                found[None] / K,
            )
        )
    return Scans.joined(parts)


def test_a_model_finds_the_rate_that_features_tell():
    scans = searches(200, 1)
    model = HitModel.fitted(scans)
    expected, hits = model.expected(scans.features(2)), scans.hits_ahead(2)
    assert expected.sum() == pytest.approx(hits.sum(), rel=0.3)
    near, far = expected[:, :4], expected[:, -4:]
    assert near.mean() > 5 * far.mean()
    missing = model.missing(scans)
    assert (missing[:, -1] == 0).all()
    assert missing[:, 1].mean() > missing[:, 12].mean()


@pytest.mark.parametrize("target", [0.8, 0.95])
def test_the_promise_holds_on_searches_held_back(target):
    recalls, scanned = [], []
    for seed in range(6):
        rule = StopRule.calibrated(searches(80, seed), searches(120, 100 + seed), target)
        held_back = searches(120, 200 + seed)
        ended = rule.stops(held_back)
        recalls.append(held_back.recall[np.arange(len(ended)), ended].mean())
        scanned.append(ended.mean())
    assert np.mean(recalls) >= target - 0.01
    assert np.mean(scanned) < 0.7 * TURNS


def test_a_promise_that_so_few_searches_cannot_prove_stops_none():
    rule = StopRule.calibrated(searches(30, 1), searches(30, 2), 0.99)  # 1 / 31 > 0.01
    assert rule.limit < 0
    assert (rule.stops(searches(10, 3)) == TURNS).all()


def test_a_search_stops_at_the_first_turn_that_may():
    missing = np.array([[0.9, 0.2, 0.4, 0.1, 0.0], [0.9, 0.8, 0.7, 0.6, 0.0]])
    assert stops(missing, 0.3).tolist() == [1, 4]
    assert stops(missing, 0.95).tolist() == [0, 0]


@pytest.mark.parametrize("target", [0.0, 1.0, -1.0])
def test_a_target_that_is_no_share_is_refused(target):
    with pytest.raises(ConfigError, match="target recall"):
        StopRule.calibrated(searches(4, 1), searches(4, 2), target)
