"""Drafts change how many steps a generation takes, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.commands import Cancel, Release
from heddle.core.frames import Cancelled, Failed
from heddle.core.payloads import Pause
from heddle.core.results import FinishReason, KvHandle
from heddle.engines.llm.draft import DRAFT_TOKENS_MAX
from heddle.engines.llm.step_prices import PREFILL_TOKENS_MIN
from tests.unit.engines.llm.fake_worker import EOS, VOCABULARY, Lane, greedy

PROMPT = tuple(range(10, 20))
CHEAP = {"call": 1.0, "decode_tokens": 1e-6, "prefill_tokens": 1e-6, "context_tokens": 0.0}


def lane(**sizes):
    return Lane(**{"pages": 64, "tokens": 64, "prior_s": CHEAP, **sizes})


def generated(draft, *, next_ids=None, prompt=PROMPT, sizes=None, **how):
    """Return what a decode gives, and its lane, which took all that it needs."""
    one = lane(**sizes or {})
    one.worker.next_ids = next_ids or {}
    one.prefill(1, prompt, has_rider=True)
    one.decode(2, 1, draft=draft, **how)
    one.drain()
    return one.result(2), one


def plain(result):
    """Return a result without its counts of drafted tokens."""
    return replace(result, drafted=0, accepted=0)


def test_a_right_draft_saves_a_step_for_each_of_its_tokens():
    tokens = greedy(PROMPT, 12)
    result, drafted = generated(tokens, max_tokens=12)
    assert result.token_ids == tokens
    assert (result.drafted, result.accepted) == (11, 11)
    without, alone = generated((), max_tokens=12)
    assert plain(result) == without
    assert len(alone.worker.batches) - len(drafted.worker.batches) == 11


def test_an_earlier_text_gives_its_end_of_sequence_too():
    tokens = greedy(PROMPT, 6)
    ends = {(*PROMPT, *tokens): EOS}
    result, one = generated(tokens, next_ids=ends, max_tokens=12)
    assert result.token_ids == tokens
    assert result.finish_reason is FinishReason.STOP
    assert len(one.worker.batches) == 1


@pytest.mark.parametrize("wrong", range(8))
def test_a_wrong_token_ends_what_is_taken_of_a_step(wrong):
    tokens = greedy(PROMPT, 8)
    draft = (*tokens[:wrong], 2, *tokens[wrong + 1 :])
    result, one = generated(draft, max_tokens=8)
    assert result.token_ids == tokens
    assert result.accepted >= wrong - 1
    assert len(one.worker.batches) == 8 - result.accepted


def test_it_goes_on_behind_words_that_are_new():
    new, known = (40, 41, 42), tuple(range(20, 30))
    text = (*known[:3], *new, *known[3:])
    script = {(*PROMPT, *text[:n]): token for n, token in enumerate(text)}
    result, _ = generated(known, next_ids=script, max_tokens=len(text))
    assert result.token_ids == text
    # The first three; and of the last seven all but the two that say where the text goes on, and
    # the one that a step gives anyway.
    assert result.accepted == 3 + 4


@pytest.mark.parametrize("every", [0, 1, 2, 3])
def test_callers_hear_the_same(every):
    tokens = greedy(PROMPT, 9)
    draft = (*tokens[:5], 2, *tokens[6:])
    result, one = generated(draft, max_tokens=9, report_every=every)
    without, alone = generated((), max_tokens=9, report_every=every)
    assert one.progress(2) == alone.progress(2)
    assert plain(result) == without


@settings(max_examples=150)
@given(st.data())
def test_what_is_generated_does_not_depend_on_the_draft(data):
    prompt = tuple(data.draw(st.lists(st.integers(3, 49), min_size=1, max_size=20)))
    count = data.draw(st.integers(1, 24))
    text = list(greedy(prompt, 40))
    tokens = st.integers(0, VOCABULARY - 1)
    draft = text[: data.draw(st.integers(0, 40))]
    for place in data.draw(st.lists(st.integers(0, 39), max_size=3)):
        if place < len(draft):
            draft[place : place + 1] = data.draw(st.lists(tokens, max_size=3))
    stop = tuple(f"<{t}>" for t in data.draw(st.lists(st.sampled_from(text[:20]), max_size=2)))
    ends = {(*prompt, *text[: data.draw(st.integers(0, 30))]): EOS}
    how = {
        "max_tokens": count,
        "stop": stop,
        "ignore_eos": data.draw(st.booleans()),
        "temperature": data.draw(st.sampled_from([0.0, 1.0])),
        "seed": data.draw(st.integers(0, 3)),
        "pause": Pause(after=data.draw(st.none() | st.integers(1, 9))),
        "sizes": {"page_size": data.draw(st.sampled_from([2, 4, 16])), "pages": 64, "seqs": 2},
        "next_ids": ends,
        "prompt": prompt,
    }
    result, one = generated(draft, **how)
    without, alone = generated((), **how)
    assert plain(result) == without
    assert one.progress(2) == alone.progress(2)
    assert len(alone.worker.batches) - len(one.worker.batches) == result.accepted


def test_seeded_draws_are_compared_with_the_draft_too():
    how = {"max_tokens": 10, "temperature": 1.0, "seed": 7}
    without, _ = generated((), **how)
    result, _ = generated(without.token_ids, **how)
    assert plain(result) == without
    assert result.accepted == 9


@pytest.mark.parametrize("at", range(1, 7))
def test_a_pause_of_low_confidence_comes_at_the_same_token(at):
    tokens = greedy(PROMPT, 8)
    results = []
    for draft in ((), tokens):
        one = lane()
        one.worker.unsure = {(*PROMPT, *tokens[:at]): 0.1}
        one.prefill(1, PROMPT)
        one.decode(2, 1, max_tokens=8, pause=Pause(below=0.5), draft=draft)
        one.drain()
        results.append(plain(one.result(2)))
    assert results[0] == results[1]
    assert results[0].finish_reason is FinishReason.LOW_CONFIDENCE


def test_a_draft_holds_what_was_written_before_a_resumed_answer():
    tokens = greedy(PROMPT, 12)
    one = lane()
    one.prefill(1, (*PROMPT, *tokens[:5]), has_rider=True)
    one.decode(2, 1, max_tokens=12, continues=5, resumes=5, draft=tokens)
    one.drain()
    assert one.result(2).token_ids == tokens
    assert len(one.worker.batches) == 1


def test_what_was_rejected_is_found_by_nobody():
    tokens = greedy(PROMPT, 8)
    wrong = (*tokens[:3], 2, 2, 2, 2, 2, 2, 2, 2)
    one = lane(page_size=2)
    one.prefill(1, PROMPT)
    one.decode(2, 1, max_tokens=8, draft=wrong)
    one.drain()
    one.engine.apply(Release(KvHandle("llm", 3, 1)))
    for task, text in ((3, tokens), (5, wrong)):
        prompt = (*PROMPT, *text)
        one.prefill(task, prompt)
        one.decode(task + 1, task, max_tokens=6)
        one.drain()
        assert one.result(task + 1).token_ids == greedy(prompt, 6)
        common = 10 + (7 if text is tokens else 3)
        assert one.result(task).tokens_reused == common // 2 * 2


def test_drafts_take_no_pages_from_others():
    """Two sequences fill the pool; drafts get only what is left of their own pages."""
    one = lane(pages=8, page_size=4, seqs=2, context=16)
    prompts = [tuple(range(start, start + 8)) for start in (10, 20)]
    for number, prompt in enumerate(prompts):
        one.prefill(1 + number, prompt)
        one.decode(11 + number, 1 + number, max_tokens=8, draft=greedy(prompt, 8))
    one.drain()
    for number, prompt in enumerate(prompts):
        assert one.result(11 + number).token_ids == greedy(prompt, 8)
        assert one.result(11 + number).preemptions == 0
        assert one.result(11 + number).accepted > 0


def test_a_preempted_decode_keeps_its_draft():
    one = lane(pages=8, page_size=4, seqs=2)
    prompts = [tuple(range(start, start + 8)) for start in (10, 30)]
    for number, prompt in enumerate(prompts):
        one.prefill(1 + number, prompt)
        text = greedy(prompt, 20)
        draft = (*text[:2], 2, *text[3:])
        one.decode(11 + number, 1 + number, max_tokens=20, draft=draft)
    one.drain()
    results = [one.result(11 + number) for number in range(2)]
    assert [r.token_ids for r in results] == [greedy(prompt, 20) for prompt in prompts]
    assert any(r.preemptions for r in results)
    assert all(r.accepted for r in results)


def test_a_draft_that_reaches_the_end_of_the_context():
    one = lane(pages=4, page_size=4)
    one.prefill(1, PROMPT)
    one.decode(2, 1, max_tokens=20, draft=greedy(PROMPT, 20))
    one.drain()
    assert one.result(2).token_ids == greedy(PROMPT, 6)
    assert one.result(2).finish_reason is FinishReason.LENGTH


def test_prompts_go_on_beside_drafts():
    one = lane(tokens=8, seqs=4)
    one.prefill(1, PROMPT)
    one.decode(2, 1, max_tokens=20, draft=greedy(PROMPT, 20))
    for _ in range(2):
        one.step()
    one.prefill(3, tuple(range(20, 40)))
    before = len(one.worker.batches)
    one.step()
    rows = one.worker.batches[before].rows
    assert [row.queries for row in rows if row.draw is None] == [4]
    assert [row.queries for row in rows if row.draw is not None] == [4]
    assert one.worker.batches[before].tokens == 8


def test_nothing_is_drafted_where_a_token_costs_as_much_as_a_step():
    each = {"call": 0.0, "decode_tokens": 1e-3, "prefill_tokens": 1e-3, "context_tokens": 0.0}
    tokens = greedy(PROMPT, 40)
    result, _ = generated(tokens, max_tokens=40, sizes={"prior_s": each})
    assert result.token_ids == tokens
    assert result.drafted == 0


def test_steps_offer_a_bounded_number_of_tokens():
    result, one = generated(greedy(PROMPT, 60), max_tokens=60, sizes={"tokens": 200})
    assert result.token_ids == greedy(PROMPT, 60)
    rows = [row for batch in one.worker.batches for row in batch.rows]
    assert max(len(row.draft_draws) for row in rows) == DRAFT_TOKENS_MAX


def test_decodes_of_one_token_stand_before_drafted_ones():
    one = lane(tokens=64)
    for task, draft in ((1, greedy(PROMPT, 20)), (3, ())):
        one.prefill(task, PROMPT if draft else (3, 4, 5))
        one.decode(task + 1, task, max_tokens=40, draft=draft)
    one.step()
    one.step()
    assert [row.queries > 1 for row in one.worker.batches[-1].rows] == [False, True]


def test_numbers_that_are_not_finite_fail_it_alone():
    one = lane()
    one.worker.bad_token = 2
    for task, prompt in ((1, (*PROMPT, 2)), (3, PROMPT)):
        one.prefill(task, prompt)
        one.decode(task + 1, task, draft=greedy(prompt, 8))
    one.drain()
    assert isinstance(one.end(2), Failed)
    assert one.result(4).token_ids == greedy(PROMPT, 8)


def test_a_cancelled_decode_gives_its_pages_back():
    one = lane()
    one.prefill(1, PROMPT)
    one.decode(2, 1, max_tokens=50, draft=greedy(PROMPT, 3) + (2,) * 30)
    one.step()
    one.step()
    one.engine.apply(Cancel(2))
    one.engine.apply(Release(KvHandle("llm", 3, 1)))
    one.drain()
    assert isinstance(one.end(2), Cancelled)
    assert one.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_prompt_of_another_lane_has_drafts_too():
    tokens = greedy(PROMPT, 12)
    first, second = lane(name="one"), lane(name="two")
    first.prefill(1, PROMPT, has_rider=True)
    first.transfer(2, 1)
    first.drain()
    second.decode(2, 1, max_tokens=12, prompt=first.result(2), draft=tokens)
    second.drain()
    assert second.result(2).token_ids == tokens
    assert second.result(2).accepted == 11


def test_drafts_keep_to_the_time_of_a_step():
    each = {"call": 0.0, "decode_tokens": 1e-3, "prefill_tokens": 1e-6, "context_tokens": 0.0}
    one = lane(tokens=512, seqs=8, prior_s=each)
    for number in range(8):
        prompt = (20 + number, *PROMPT)
        one.prefill(2 * number, prompt)
        one.decode(2 * number + 1, 2 * number, max_tokens=40, draft=greedy(prompt, 40))
    one.step()
    one.step(budget_s=0.0)  # leaves the least that a step always moves prompts by
    drafted = sum(len(row.draft_draws) for row in one.worker.batches[-1].rows)
    assert 0 < drafted <= PREFILL_TOKENS_MIN + 1  # prompts always get one, and none is here


def test_numbers_behind_a_wrong_drafted_token_need_not_be_finite():
    tokens = greedy(PROMPT, 8)
    one = lane()
    one.worker.bad_token = 2
    one.prefill(1, PROMPT, has_rider=True)
    one.decode(2, 1, max_tokens=8, draft=(*tokens[:3], 2, *tokens[4:]))
    one.drain()
    assert one.result(2).token_ids == tokens
    assert one.result(2).accepted == 0


def test_a_right_drafted_token_with_numbers_that_are_not_finite_fails_and_is_found_by_nobody():
    tokens = greedy(PROMPT, 8)
    one = lane(page_size=2)
    one.worker.bad_token = tokens[3]
    assert one.worker.bad_token not in (*PROMPT, *tokens[:3])
    one.prefill(1, PROMPT, has_rider=True)
    one.decode(2, 1, max_tokens=8, draft=tokens)
    one.drain()
    assert "not finite" in one.end(2).message
    one.worker.bad_token = None
    one.prefill(3, (*PROMPT, *tokens), has_rider=True)
    one.decode(4, 3, max_tokens=4)
    one.drain()
    assert one.result(3).tokens_reused <= len(PROMPT) + 3
    assert one.result(4).token_ids == greedy((*PROMPT, *tokens), 4)
