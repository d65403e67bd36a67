"""Random fused prompts over too few pages: books that balance, and an exact prefix cache."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.commands import Cancel
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.three_chunks import PREFIX, TOLERANCE, full_logits, ids_of, rel_diff
from tests.helpers.tiny_models import prompt, tiny_model

CHUNKS = [(), *(prompt(length, length) for length in (1, 16, 20, 33))]
QUESTIONS = [prompt(1, 40), prompt(9, 41)]

REQUESTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(CHUNKS), max_size=4),
        st.sampled_from(QUESTIONS),
        st.builds(KvReuse, st.sampled_from(ReusePolicy), st.sampled_from((0.0, 0.2, 1.0))),
        st.integers(1, 20),  # tokens to generate
        st.integers(0, 4),  # steps before the next request
        st.booleans(),  # cancelled after them
    ),
    min_size=1,
    max_size=7,
)


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


@settings(max_examples=25, derandomize=True)
@given(REQUESTS)
def test_pages_and_pins_are_given_back_and_no_approximate_page_is_found_again(model, requests):
    serving = FusedServing(model, pages=16, step_tokens=24, host_bytes_max=300_000)
    for chunks, question, reuse, new_tokens, steps, is_cancelled in requests:
        number = serving.start(segments(PREFIX, chunks, question), reuse, new_tokens)
        for _ in range(steps):
            serving.step()
        if is_cancelled:
            serving.engine.apply(Cancel(number))
    serving.drain()
    assert (serving.pinned_chunks, serving.held_pages) == (0, 0)
    serving.store.check()
    for chunks, question, *_ in requests:
        logits = serving.ask(segments(PREFIX, chunks, question), KvReuse())
        expected = full_logits(model, ids_of(chunks, question=question))
        assert rel_diff(logits, expected) < TOLERANCE
