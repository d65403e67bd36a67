"""How likely partial hits are final: the share of earlier searches that looked the same."""

import numpy as np
import pytest

from heddle.engines.vector.ivf.early_stop.finality import (
    KINDS_KEPT,
    SEEN_MAX,
    SEEN_MIN,
    STABLE_MAX,
    Finality,
    Kind,
)

KIND = Kind(3, 32)  # looked at after 4, 6, 8, 12, 16 and 24 of its clusters
FINAL, OTHER = np.array([1, 2, 3]), np.array([1, 3, 2])


def searched(finality, task_id, looks, final=FINAL, kind=KIND):
    """Take a search to its end; `looks` are (clusters scanned, hits so far)."""
    found = []
    for scanned, labels in looks:
        assert finality.is_due(task_id, kind, scanned)
        found.append(finality.look(task_id, scanned, labels))
    finality.learn(task_id, final)
    return found


def test_a_search_is_looked_at_once_after_so_many_clusters():
    finality = Finality()
    due = []
    for scanned in range(32):
        if finality.is_due(1, KIND, scanned):
            due.append(scanned)
            finality.look(1, scanned, FINAL)
    assert due == [4, 6, 8, 12, 16, 24]
    assert not finality.is_due(2, Kind(3, 4), 3), "it is over with its first look"


def test_nothing_is_said_before_enough_searches_were_seen():
    finality = Finality()
    found = [searched(finality, n, [(4, FINAL)])[0] for n in range(SEEN_MIN + 1)]
    assert found[:-1] == [0.0] * SEEN_MIN
    assert found[-1] == SEEN_MIN / (SEEN_MIN + 1)


def test_it_is_the_share_of_searches_in_that_state_that_ended_so():
    finality, draws = Finality(), np.random.default_rng(5)
    said = {(4, True): [], (12, True): [], (12, False): []}
    came = {state: [] for state in said}
    for number in range(3_000):
        first = FINAL if draws.random() < 0.4 else OTHER
        changes = draws.random() < 0.3
        second = first if not changes else np.array([7, 8, 9])
        final = second if draws.random() < (0.5 if changes else 0.9) else np.array([4, 5, 6])
        told = searched(finality, number, [(4, first), (13, second)], final)
        said[4, True].append(told[0])
        came[4, True].append(np.array_equal(first, final))
        said[12, not changes].append(told[1])
        came[12, not changes].append(np.array_equal(second, final))
    for state in said:
        assert np.mean(said[state][300:]) == pytest.approx(np.mean(came[state][300:]), abs=0.06)
    assert np.mean(said[12, True][300:]) > np.mean(said[12, False][300:]) + 0.3


def test_the_order_of_hits_counts():
    finality = Finality()
    for number in range(SEEN_MIN):
        searched(finality, number, [(4, OTHER)])
    assert searched(finality, 99, [(4, FINAL)]) == [0.0]


def test_kinds_are_told_apart_and_bounded():
    finality = Finality()
    for number in range(SEEN_MIN):
        searched(finality, number, [(4, FINAL)])
    assert searched(finality, 90, [(4, FINAL)], kind=Kind(1, 32)) == [0.0]
    assert searched(finality, 91, [(4, FINAL)])[0] > 0.9
    assert searched(finality, 94, [(4, FINAL)], kind=Kind(3, 32, is_filtered=True)) == [0.0]
    for k in range(40, 40 + KINDS_KEPT):
        searched(finality, 92, [(4, FINAL)], kind=Kind(k, 32))
    assert searched(finality, 93, [(4, FINAL)]) == [0.0], "the kind used longest ago is forgotten"


def test_searches_of_any_length_are_counted_while_those_of_one_are_few():
    finality = Finality()
    for number in range(SEEN_MIN):
        searched(finality, number, [(4, FINAL)], kind=Kind(3, 64))
    assert searched(finality, 90, [(4, FINAL)], kind=Kind(3, 128))[0] > 0.9
    for number in range(100, 100 + SEEN_MIN):
        searched(finality, number, [(4, OTHER)], kind=Kind(3, 128))
    told = [searched(finality, 91, [(4, FINAL)], kind=Kind(3, n))[0] for n in (64, 128)]
    assert told[0] > 0.9 > told[1], "each has its own by now"


def test_it_follows_what_is_asked():
    finality = Finality()
    for number in range(4 * SEEN_MAX):
        searched(finality, number, [(4, FINAL)])
    for number in range(2 * SEEN_MAX):
        (told,) = searched(finality, number, [(4, OTHER)])
    assert told < 0.2


def test_a_search_that_never_ends_teaches_nothing_and_leaves_nothing():
    finality = Finality()
    for number in range(2 * SEEN_MIN):
        assert finality.is_due(number, KIND, 5)
        finality.look(number, 5, FINAL)
        finality.forget(number)
        finality.forget(number)
        finality.learn(number, FINAL)
    assert searched(finality, 99, [(5, FINAL)]) == [0.0]
    assert finality.is_due(0, KIND, 5), "nothing is known of it any more"


def test_hits_that_stayed_for_long_are_not_told_apart():
    finality = Finality()
    looks = [(scanned, FINAL) for scanned in (4, 6, 8, 12, 16, 24)]
    for number in range(SEEN_MIN):
        searched(finality, number, looks)
    assert len(looks) > STABLE_MAX + 1
    shorter = [(4, OTHER), *looks[1:]]  # at the last look for exactly STABLE_MAX looks
    assert searched(finality, 99, looks)[-1] == pytest.approx(SEEN_MIN / (SEEN_MIN + 1))
    assert searched(finality, 100, shorter)[-1] > 0.9
