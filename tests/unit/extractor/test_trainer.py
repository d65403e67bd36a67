import pytest
import torch
from extractor_training.schedule import WARM_UP_STEPS, learning_rate_share
from extractor_training.trainer import Plan, Trainer

from tests.helpers.small_extractor import lessons, small_model

PLAN = Plan(n_steps=12, n_tokens=60, n_negatives=1, learning_rate=3e-2)


def trainer(tokenizer, folder, plan=PLAN):
    return Trainer(small_model(), tokenizer, lessons(), plan, folder / "checkpoint.pt")


def losses(run, count):
    found = []
    for _ in range(count):
        run.step()
        found.append(run.progress.loss)
    return found


def test_an_interrupted_run_has_the_curve_of_one_that_was_not(tokenizer, tmp_path):
    whole = trainer(tokenizer, tmp_path / "whole")
    curve = losses(whole, 8)
    first = trainer(tokenizer, tmp_path / "cut")
    before = losses(first, 3)
    first.save()
    second = trainer(tokenizer, tmp_path / "cut")
    assert second.progress.step == 3
    after = losses(second, 5)
    assert before + after == pytest.approx(curve, rel=1e-5)
    for name, weight in whole.average.weights.items():
        torch.testing.assert_close(second.average.weights[name], weight, atol=1e-5, rtol=1e-4)


def test_training_learns_the_lessons(tokenizer, tmp_path):
    run = trainer(tokenizer, tmp_path, Plan(n_steps=400, n_tokens=60, learning_rate=3e-2))
    curve = losses(run, 160)
    assert curve[-1] < 0.7 * curve[10]


def test_the_average_stands_in_for_the_weights_and_back(tokenizer, tmp_path):
    run = trainer(tokenizer, tmp_path)
    losses(run, 4)
    weight = run.model.head.weight
    own, average = weight.detach().clone(), run.average.weights["head.weight"].clone()
    run.average.swap()
    assert torch.equal(weight, average)
    run.average.swap()
    assert torch.equal(weight, own)
    assert torch.equal(run.average.weights["head.weight"], average)


def test_embeddings_stay_as_they_were(tokenizer, tmp_path):
    run = trainer(tokenizer, tmp_path)
    losses(run, 3)
    fresh = small_model().state_dict()
    for name, weight in run.model.state_dict().items():
        if name.startswith("embeddings."):
            assert torch.equal(weight, fresh[name])


def test_the_rate_rises_stays_and_falls_to_nothing():
    shares = [learning_rate_share(step, 4_000) for step in range(4_001)]
    assert shares[0] == pytest.approx(1 / WARM_UP_STEPS)
    assert shares[WARM_UP_STEPS:2_400] == [1.0] * (2_400 - WARM_UP_STEPS)
    assert shares[3_200] == pytest.approx(0.5)
    assert shares[-1] == 0.0


def test_the_plateau_is_the_same_for_a_longer_plan():
    assert learning_rate_share(1_000, 4_000) == learning_rate_share(1_000, 8_000)
