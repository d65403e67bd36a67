"""The engine against transformers: eight families, fp32, logits and tokens."""

import pytest

from benchmarks.llm_parity import CONTEXT, LENGTHS, MODES, NEW_TOKENS, Serving, serve
from heddle.core.payloads import Sampling
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

TOLERANCE = 5e-6


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


@pytest.mark.parametrize("mode", MODES)
def test_logits_and_tokens_equal_transformers(model, mode):
    prompts = [prompt(length, number) for number, length in enumerate(LENGTHS)]
    served = serve(model, prompts, mode)
    assert len(served) == len(prompts)
    for request in served:
        assert request.rel_diff(model) < TOLERANCE
        assert request.tokens_equal(model)
    assert (sum(request.preemptions for request in served) > 0) == (mode == "preempted")


def test_a_warm_prefix_changes_nothing(model):
    serving = Serving(model)
    shared = prompt(50, 9)
    for number in range(3):
        token_ids = (*shared, *prompt(4 + number, number))
        serving.prefill(number, token_ids)
        serving.decode(number, token_ids)
        serving.drain()
        assert serving.served[number].rel_diff(model) < TOLERANCE
        assert serving.prefilled[number].tokens_reused == (48 if number else 0)


@pytest.mark.parametrize("family", ["mistral", "phi3"])
def test_a_window_as_long_as_the_context_never_slides(family):
    model = tiny_model(family, sliding_window=CONTEXT)
    (served,) = serve(model, [prompt(CONTEXT - NEW_TOKENS, 5)], "alone")
    assert len(served.prompt) + len(served.token_ids) == CONTEXT
    assert served.rel_diff(model) < TOLERANCE
    assert served.tokens_equal(model)


def test_a_sampled_request_ignores_its_neighbours(model):
    def run(neighbours):
        serving = Serving(model)
        own = prompt(20, 0)
        serving.prefill(0, own)
        serving.decode(0, own, Sampling(16, temperature=0.9, top_p=0.9, seed=3, ignore_eos=True))
        for number in range(1, 1 + neighbours):
            serving.prefill(number, prompt(10 * number, number))
            serving.decode(number, prompt(10 * number, number))
        serving.drain()
        return serving.served[0].token_ids

    assert run(0) == run(3)
