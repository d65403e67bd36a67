import itertools
import math

import pytest
import torch
from extractor_training.span_loss import PASSAGE_WEIGHT, SPAN_MAX, question_loss, span_scores


def test_a_span_scores_its_start_its_end_and_the_answerability():
    logits = torch.randn(9, 3)
    scores = span_scores(logits, first=3, n_tokens=5)
    assert scores.shape == (5, SPAN_MAX)
    for first, more in itertools.product(range(5), range(SPAN_MAX)):
        last = first + more
        if last < 5:
            wanted = logits[3 + first, 0] + logits[3 + last, 1] + logits[0, 2]
            assert scores[first, more] == pytest.approx(float(wanted), abs=1e-6)
        else:
            assert scores[first, more] == -math.inf


def test_the_loss_equals_the_one_written_out():
    one, two = span_scores(torch.randn(8, 3), 2, 5), span_scores(torch.randn(6, 3), 2, 3)
    right = one[1, 0].exp() + one[2, 2].exp()
    shared = -torch.log(right / (1 + one.exp().sum() + two.exp().sum()))
    alone = -torch.log(right / (1 + one.exp().sum())) - torch.log(1 / (1 + two.exp().sum()))
    wanted = shared + PASSAGE_WEIGHT * alone / 2
    loss = question_loss([one, two], [[(1, 1), (2, 4)], []])
    assert float(loss) == pytest.approx(float(wanted), rel=1e-5)


def test_without_an_answer_every_span_is_wrong():
    scores = span_scores(torch.zeros(4, 3), 1, 2)
    assert float(question_loss([scores], [[]])) == pytest.approx(math.log(1 + 3), rel=1e-5)


def test_no_gradient_is_lost_to_spans_that_do_not_exist():
    logits = torch.randn(7, 3, requires_grad=True)
    question_loss([span_scores(logits, 2, 4), span_scores(logits, 2, 4)], [[(0, 1)], []]).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 2] != 0
