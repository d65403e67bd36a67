"""A rule comes after enough searches, and goes when it no longer keeps what was promised."""

from dataclasses import replace

import numpy as np

from heddle.engines.vector.ivf.early_stop.calibration import SAMPLE_MIN, Calibration
from heddle.engines.vector.ivf.early_stop.looks import looks_at
from heddle.engines.vector.ivf.early_stop.scans import FAR, Scans
from tests.helpers.scan_in_turns import scan_in_turns

TURNS, K, TARGET = 32, 5, 0.9
LOOKS = looks_at(TURNS, 1)


def scan(seed):
    """One search whose hits lie in its first clusters."""
    rng = np.random.default_rng(seed)
    centroids = np.sort(rng.uniform(0.4, 1.4, TURNS))
    sizes = rng.integers(5, 30, TURNS)
    turn = np.repeat(np.arange(1, TURNS + 1), sizes)
    distances = np.abs(centroids[turn - 1] + 0.1 * rng.standard_normal(len(turn)))
    kth, found = scan_in_turns(distances.astype(np.float32), turn, TURNS, K)
    none = np.zeros((1, TURNS))
    kth = np.minimum(kth[LOOKS], FAR)[None]
    hits, recall = np.diff(found)[None], found[LOOKS][None] / K
    return Scans(K, LOOKS, centroids[None], sizes[None], none, hits, kth, recall)


def finding_less(one, share):
    """Return a search that misses hits which no cluster announces."""
    return replace(one, recall=share * one.recall)


def calibrated():
    calibration = Calibration(TARGET, LOOKS)
    for seed in range(SAMPLE_MIN):
        assert calibration.rule is None
        assert calibration.why_full == "it is not calibrated yet"
        calibration.add(scan(seed), 3, by_rule=False)
    return calibration


def test_after_enough_searches_there_is_a_rule_that_stops_early():
    calibration = calibrated()
    assert calibration.why_full == ""
    scans = Scans.joined([scan(seed) for seed in range(1000, 1100)])
    stops = calibration.rule.stops(scans)
    assert scans.looks[stops].mean() < TURNS / 2
    assert scans.recall[np.arange(100), stops].mean() >= TARGET - 0.02


def test_the_promise_covers_requests_whose_second_searches_know_all_hits():
    def alternating(seeds):
        """First searches, and second ones for which everything is known before a list."""
        for seed in seeds:
            one = scan(seed)
            yield one
            yield replace(one, recall=np.ones_like(one.recall), hits=np.zeros_like(one.hits))

    calibration = Calibration(TARGET, LOOKS)
    for one in alternating(range(SAMPLE_MIN)):
        calibration.add(one, 3, by_rule=False)
    scans = Scans.joined(list(alternating(range(1000, 1100))))
    stops = calibration.rule.stops(scans)
    assert scans.recall[np.arange(200), stops].mean() >= TARGET - 0.02
    assert scans.looks[stops].mean() < TURNS / 2


def test_searches_that_find_less_than_promised_end_the_rule_until_there_are_enough_new_ones(caplog):
    caplog.set_level("INFO", logger="heddle.engines.vector.ivf.early_stop.calibration")
    calibration = calibrated()
    first = 2000
    while calibration.rule is not None:
        calibration.add(finding_less(scan(first), 0.7), 3, by_rule=True)
        first += 1
        assert first < 2100
    assert calibration.why_full.startswith("recall fell to 0.")
    assert "every planned list is scanned" in caplog.text
    for seed in range(8):  # those that had ended by the rule, and were run again since
        calibration.add(finding_less(scan(seed), 0.5), 3, by_rule=True)
    assert len(caplog.records) == 1
    for seed in range(2 * SAMPLE_MIN):
        assert (calibration.rule is None) == (seed < SAMPLE_MIN - 8)
        calibration.add(scan(seed), 3, by_rule=False)
    assert calibration.why_full == ""


def test_chance_alone_ends_no_rule():
    calibration = calibrated()
    for seed in range(5000, 5200):
        one = scan(seed)
        calibration.add(one, int(calibration.rule.stops(one)[0]), by_rule=True)
        assert calibration.why_full == ""


def test_a_promise_that_even_all_clusters_break_scans_them_all_and_says_so():
    calibration = Calibration(TARGET, LOOKS)
    for seed in range(SAMPLE_MIN):
        calibration.add(finding_less(scan(seed), 0.5), 3, by_rule=False)
    assert calibration.why_full == "no earlier stop keeps it: they find 0.500"
