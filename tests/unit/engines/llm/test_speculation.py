"""A speculative prefill runs in the background and leaves nothing but cached pages."""

import pytest

from heddle.core.commands import Cancel
from heddle.core.frames import Cancelled, Failed
from heddle.core.results import Prefilled
from heddle.core.tasks import Priority
from tests.unit.engines.llm.fake_worker import Lane, greedy

PROMPT = tuple(range(10, 31))  # 21 tokens: five full pages of four


def answered(lane, prefill=2, decode=3, prompt=PROMPT, **options):
    """Prefill and decode a prompt to the end; return how many of its tokens were reused."""
    lane.prefill(prefill, prompt, **options)
    lane.decode(decode, prefill, max_tokens=5)
    lane.drain()
    assert lane.result(decode).token_ids == greedy(prompt, 5)
    return lane.result(prefill).tokens_reused


def test_its_prompt_finds_what_was_computed():
    lane = Lane()
    lane.speculate(1, PROMPT)
    lane.drain()
    assert isinstance(lane.result(1), Prefilled)
    assert not lane.engine.sequences
    assert lane.frames[-1].load.bytes_free == 64 * 100, "its pages are anybody's"
    assert answered(lane) == 20


def test_one_that_is_cancelled_leaves_its_full_pages():
    lane = Lane(tokens=9)
    lane.speculate(1, PROMPT)
    lane.step()
    lane.engine.apply(Cancel(1))
    lane.drain()
    assert isinstance(lane.end(1), Cancelled)
    assert answered(lane) == 8


@pytest.mark.parametrize(("step_s", "tokens"), [(0.05, range(40, 55)), (0.5, range(200, 201))])
def test_a_step_in_the_background_takes_no_longer_than_it_may(step_s, tokens):
    lane = Lane(tokens=200, pages=200, background_step_s=step_s)
    lane.speculate(1, tuple(range(3, 40)) * 6)  # 222 tokens of 1 ms
    lane.step()
    assert lane.worker.batches[0].tokens in tokens


def test_a_query_gets_whole_steps():
    lane = Lane(tokens=200, pages=200, background_step_s=0.05)
    lane.prefill(1, tuple(range(3, 40)) * 6)
    lane.step()
    assert lane.worker.batches[0].tokens == 200


def test_another_prompt_is_as_without_it():
    lane = Lane()
    lane.speculate(1, PROMPT)
    lane.drain()
    other = (*PROMPT[:10], *range(32, 40))
    assert answered(lane, prompt=other) == 8, "as far as both begin alike"
    assert answered(lane, 4, 5, prompt=PROMPT[1:]) == 0


def test_tenants_are_kept_apart():
    lane = Lane()
    lane.speculate(1, PROMPT, tenant="a")
    lane.drain()
    assert answered(lane, tenant="b") == 0
    assert answered(lane, 4, 5, tenant="a") == 20


@pytest.mark.parametrize("priority", Priority)
def test_any_query_goes_first(priority):
    lane = Lane(tokens=4)
    lane.speculate(1, PROMPT, priority=Priority.INTERACTIVE)
    lane.step()
    lane.prefill(2, tuple(range(40, 49)), priority=priority)
    lane.decode(3, 2, max_tokens=3)
    while 3 not in lane.events or lane.engine.sequences.decoding:
        lane.step()
    assert 1 not in lane.events, "it goes on once nobody else wants a step"
    lane.drain()
    assert isinstance(lane.result(1), Prefilled)
    assert lane.result(3).token_ids == greedy(tuple(range(40, 49)), 3)


def test_its_pages_go_first():
    lane = Lane(pages=8, context=32)
    lane.speculate(1, PROMPT)
    lane.step()
    other = tuple(range(31, 49))
    assert answered(lane, prompt=other) == 0
    lane.drain()
    assert isinstance(lane.result(1), Prefilled)


def test_a_prompt_that_is_too_long_fails_by_itself():
    lane = Lane(pages=8, context=16)
    lane.speculate(1, PROMPT)
    lane.drain()
    assert isinstance(lane.end(1), Failed)
    assert not lane.engine.sequences


def test_a_step_that_breaks_ends_it_and_nothing_else():
    lane = Lane()
    lane.speculate(1, PROMPT)
    lane.worker.error = RuntimeError("no device")
    lane.drain()
    assert "no device" in lane.end(1).message
    assert answered(lane) == 0


def test_a_decode_behind_it_writes_as_its_prompt_would_and_holds_nothing_at_its_end():
    lane = Lane()
    lane.speculate(1, PROMPT)
    lane.decode(2, 1, max_tokens=5)
    lane.drain()
    assert lane.result(2).token_ids == greedy(PROMPT, 5)
    assert not lane.engine.sequences
    assert lane.frames[-1].load.bytes_free == 64 * 100, "its pages can go to any prompt"
    assert answered(lane, 3, 4) == 20


def test_a_query_goes_before_a_decode_in_the_background():
    lane = Lane()
    lane.speculate(1, PROMPT)
    lane.decode(2, 1, max_tokens=30)
    for _ in range(4):
        lane.step()
    lane.prefill(3, tuple(range(40, 49)))
    lane.decode(4, 3, max_tokens=3)
    while lane.engine.sequences.decoded_by(4) or 4 not in lane.events:
        lane.step()
    told = len(lane.events.get(2, ()))
    assert lane.engine.sequences.decoded_by(2), "it goes on once no query wants a step"
    assert told < 10
    lane.drain()
    assert lane.result(2).token_ids == greedy(PROMPT, 30)


@pytest.mark.parametrize(("steps", "reused"), [(0, 0), (1, 16), (3, 20)])
def test_a_decode_that_is_cancelled_with_its_guess_leaves_its_full_pages(steps, reused):
    lane = Lane()
    lane.speculate(1, PROMPT)
    lane.decode(2, 1, max_tokens=30)
    for _ in range(steps):
        lane.step()
    for task_id in (1, 2):
        lane.engine.apply(Cancel(task_id))
    lane.drain()
    assert isinstance(lane.end(2), Cancelled)
    assert not lane.engine.sequences
    assert answered(lane, 3, 4) == reused
