"""Drafted tokens of real models: no family writes another text with them."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.llm_parity import NEW_TOKENS, Serving
from heddle.core.frames import Done
from heddle.core.payloads import Sampling
from heddle.core.results import Generated
from tests.helpers.tiny_models import FAMILIES, VOCABULARY, prompt, tiny_model

PROMPTS = tuple(prompt(length, number) for number, length in enumerate((3, 17, 40, 71)))


@cache
def model_of(family):
    return tiny_model(family)


def written(family, drafts, sampling=None):
    """Return what is generated for each prompt, all of them at once."""
    serving, found = Serving(model_of(family)), {}
    for number, draft in enumerate(drafts):
        serving.prefill(number, PROMPTS[number])
        serving.decode(number, PROMPTS[number], sampling, draft=tuple(draft))
    while serving.engine.has_work:
        frame = serving.engine.step(0.0, float("inf"))
        serving.engine.check()
        for event in frame.events:
            if isinstance(event, Done) and isinstance(event.result, Generated):
                found[event.task_id // 2] = event.result
    return [found[number] for number in range(len(drafts))]


@cache
def plain(family, sampling=None):
    return tuple(g.token_ids for g in written(family, [()] * len(PROMPTS), sampling))


@pytest.mark.parametrize("family", FAMILIES)
def test_right_drafts_change_no_token(family):
    drafted = written(family, plain(family))
    assert tuple(g.token_ids for g in drafted) == plain(family)
    assert sum(g.accepted for g in drafted) > NEW_TOKENS


@pytest.mark.parametrize("wrong", range(0, NEW_TOKENS, 3))
def test_drafts_that_are_wrong_at_one_place_change_no_token(wrong):
    family = FAMILIES[0]
    drafts = [
        (*t[:wrong], (t[wrong] + 1) % VOCABULARY, *t[wrong + 1 :], 5, 6) for t in plain(family)
    ]
    drafted = written(family, drafts)
    assert tuple(g.token_ids for g in drafted) == plain(family)


def test_seeded_draws_are_the_same():
    how = Sampling(NEW_TOKENS, temperature=0.9, top_p=0.9, seed=3, ignore_eos=True)
    family = FAMILIES[0]
    drafted = written(family, plain(family, how), how)
    assert tuple(g.token_ids for g in drafted) == plain(family, how)
    assert sum(g.accepted for g in drafted) > NEW_TOKENS


@settings(max_examples=10)
@given(st.data())
def test_no_draft_changes_a_token(data):
    family = data.draw(st.sampled_from(FAMILIES[:3]))
    drafts = []
    for tokens in plain(family):
        draft = list(tokens)
        for _ in range(data.draw(st.integers(0, 3))):
            start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(draft))] * 2)))
            draft[start:stop] = data.draw(st.lists(st.integers(0, VOCABULARY - 1), max_size=4))
        drafts.append(tuple(draft))
    assert tuple(g.token_ids for g in written(family, drafts)) == plain(family)
