"""Guesses that lose are believed less, and for a while only."""

import pytest

from heddle.costs.win_rate import HALF_LIFE_S, KINDS_KEPT, WinRates

NODE = "llm", "oneshot", "answer"


def learnt(*outcomes, probability=0.9, at_s=0.0):
    rates = WinRates()
    for has_won in outcomes:
        rates.learn(NODE, probability, at_s, has_won=has_won)
    return rates


def test_what_is_not_known_is_believed():
    assert WinRates().ratio(NODE, 0.0) == 1.0


def test_guesses_that_win_as_predicted_are_believed_and_never_more():
    assert learnt(*[True] * 50).ratio(NODE, 0.0) == 1.0
    fair = learnt(*[True, False] * 50, probability=0.5)
    assert fair.ratio(NODE, 0.0) == pytest.approx(1.0)


def test_losses_count_until_they_have_faded():
    rates = learnt(*[False] * 40)
    assert rates.ratio(NODE, 0.0) == pytest.approx(4 / 40)
    assert rates.ratio(NODE, HALF_LIFE_S) == pytest.approx(4 / 22)
    assert rates.ratio(NODE, 20 * HALF_LIFE_S) == pytest.approx(1.0, abs=1e-4)


def test_nodes_are_counted_apart_and_the_oldest_forgotten():
    rates = learnt(*[False] * 40)
    assert rates.ratio(("llm", "oneshot", "other"), 0.0) == 1.0
    for number in range(KINDS_KEPT):
        rates.learn(("llm", "oneshot", str(number)), 0.9, 0.0, has_won=True)
    assert rates.ratio(NODE, 0.0) == 1.0
