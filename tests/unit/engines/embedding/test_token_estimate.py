"""Lengths guessed from characters, learnt from what comes back."""

import pytest

from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.embedding.token_estimate import TokenEstimate


def test_a_guess_counts_characters_special_tokens_and_padding() -> None:
    estimate = TokenEstimate(256, tokens_per_char=0.25, padding=1.0)
    shape = estimate.shape(["x" * 40, "x" * 80])
    assert (shape.tokens, shape.squares) == (12 + 22, 12**2 + 22**2)


def test_long_texts_are_cut() -> None:
    estimate = TokenEstimate(256, padding=1.0)
    assert estimate.shape(["x" * 10_000]).tokens == 256
    assert estimate.shape(["x" * 10_000], in_windows=True).tokens == 2502
    windowed = TokenEstimate(256, LongTexts.WINDOW, padding=1.0)
    assert windowed.shape(["x" * 10_000]).tokens == 2502
    assert windowed.shape(["x" * 10_000], in_windows=False).tokens == 256


def test_it_learns_from_what_came_back() -> None:
    estimate = TokenEstimate(256)
    for _ in range(400):
        estimate.learn(chars=100, texts=1, tokens=52)
        estimate.learn_padding(130, 100)
    assert estimate.tokens_per_char == pytest.approx(0.5, rel=0.01)
    assert estimate.padding == pytest.approx(1.3, rel=0.01)


def test_empty_texts_teach_nothing() -> None:
    estimate = TokenEstimate(256)
    estimate.learn(chars=0, texts=1, tokens=2)
    estimate.learn_padding(0, 0)
    assert estimate == TokenEstimate(256)
