"""Tokens drawn by inverting the distribution: what is left in, and how often each comes."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from heddle.engines.llm.model import sampler
from heddle.engines.llm.model.sampler import probabilities_of
from heddle.engines.llm.step_batch import Draw

LOGITS = torch.tensor([[0.5, 0.1, 0.3, 0.06, 0.04]]).log()


def draw_tokens(logits, draws):
    return sampler.draw_tokens(logits, draws, logits.argmax(dim=-1).tolist())


def counts(**draw):
    """Return how often each token comes over an even grid of uniforms."""
    seen = [0] * 5
    for step in range(1000):
        (token,) = draw_tokens(LOGITS, [Draw(uniform=(step + 0.5) / 1000, **draw)])
        seen[token] += 1
    return seen


def test_greedy_takes_the_best_of_each_row():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    assert draw_tokens(logits, [Draw(), Draw()]) == (1, 0)


def test_tokens_come_as_often_as_the_model_says():
    assert counts(temperature=1.0) == pytest.approx([500, 100, 300, 60, 40], abs=1)


def test_temperature_sharpens():
    squares = torch.tensor([0.25, 0.01, 0.09, 0.0036, 0.0016])
    expected = (squares / squares.sum() * 1000).tolist()
    assert counts(temperature=0.5) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("how", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_the_least_temperature_leaves_the_best_alone(how):
    assert counts(temperature=5e-324, **how) == [1000, 0, 0, 0, 0]


def test_top_k_keeps_the_best_k():
    assert counts(temperature=1.0, top_k=2) == pytest.approx([625, 0, 375, 0, 0], abs=1)


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    assert counts(temperature=1.0, top_p=0.75) == pytest.approx([625, 0, 375, 0, 0], abs=1)
    assert counts(temperature=1.0, top_p=0.45) == [1000, 0, 0, 0, 0]


def test_top_p_counts_within_top_k():
    both = counts(temperature=1.0, top_k=3, top_p=0.85)
    assert both == pytest.approx([625, 0, 375, 0, 0], abs=1)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 1e-16])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_the_ends_of_the_interval_are_tokens(uniform, top_p):
    (token,) = draw_tokens(LOGITS, [Draw(1.0, top_p, 0, uniform)])
    assert 0 <= token < 5


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("how", [Draw(), Draw(1.0), Draw(1.0, 0.9, 0, 0.5), Draw(1.0, 0.9, 1)])
def test_a_row_that_is_not_finite_has_some_token_and_leaves_the_others_alone(bad, how):
    logits = torch.tensor([[0.0, 1.0], [0.0, bad], [2.0, 1.0]])
    first, broken, last = draw_tokens(logits, [Draw(), how, Draw()])
    assert (first, last) == (1, 0)
    assert broken in (0, 1)


def test_a_probability_is_that_of_the_plain_softmax():
    logits = LOGITS.repeat(4, 1) + torch.arange(4.0)[:, None]
    draws = [
        Draw(wants_probability=True),
        Draw(),
        Draw(0.3, 0.5, 2, 0.99, wants_probability=True),
        Draw(wants_probability=True),
    ]
    assert probabilities_of((0, 1, 2, 4), logits, draws) == pytest.approx((0.5, 0.3, 0.04))
    assert probabilities_of((0, 1), logits[:2], [Draw(), Draw(1.0)]) == ()


@dataclass(frozen=True)
class Allowed:
    """A mask of some tokens, as a grammar gives it."""

    tokens: tuple[int, ...]

    def bits(self):
        return np.array([sum(1 << token for token in self.tokens)], np.uint32)


def test_only_tokens_of_the_mask_are_drawn_as_often_as_the_model_says():
    mask = Allowed((1, 3, 4, 30))  # there are five tokens
    assert draw_tokens(LOGITS, [Draw(mask=mask)]) == (1,)
    assert counts(temperature=1.0, mask=mask) == pytest.approx([0, 500, 0, 300, 200], abs=1)
    assert counts(temperature=1.0, top_k=2, mask=mask) == pytest.approx([0, 625, 0, 375, 0], abs=1)


def test_a_mask_is_for_its_own_row_alone():
    rows, plain = LOGITS.repeat(3, 1), Draw(temperature=1.0, uniform=0.7)
    masked = replace(plain, mask=Allowed((4,)))
    (alone,) = draw_tokens(LOGITS, [plain])
    assert draw_tokens(rows, [plain, masked, plain]) == (alone, 4, alone)
    draws = [Draw(wants_probability=True), Draw(mask=Allowed((4,)), wants_probability=True)]
    tokens = draw_tokens(rows[:2], draws)
    assert probabilities_of(tokens, rows[:2], draws) == pytest.approx((0.5, 0.04))


def test_a_mask_that_has_failed_draws_any_token():
    assert len(draw_tokens(LOGITS, [Draw(temperature=1.0, mask=Allowed(()))])) == 1
