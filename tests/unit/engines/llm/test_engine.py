"""The engine's promises, on a fake model: events, ends, leases, amendments, failures."""

import pytest

from heddle.core import gauges
from heddle.core.commands import Admit, Amend, AmendMode, Cancel, Release, Steer
from heddle.core.frames import Cancelled, Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, KvHandle, Prefilled
from heddle.core.tasks import Identity, Priority, Task
from tests.unit.engines.llm.fake_worker import EOS, Lane, greedy, next_token

PROMPT = tuple(range(10, 20))


def test_a_prefill_and_its_decode_answer_once_each():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, max_tokens=5)
    lane.drain()
    assert lane.result(1) == Prefilled(KvHandle("llm", 3, 1), 10, 0)
    generated = lane.result(2)
    assert generated.token_ids == greedy(PROMPT, 5)
    assert generated.finish_reason is FinishReason.LENGTH
    assert generated.text == "".join(f"<{t}>" for t in generated.token_ids) + "."
    progress = lane.progress(2)
    assert [t for p in progress for t in p.token_ids] == list(generated.token_ids)
    assert "".join(p.text for p in progress) == generated.text


@pytest.mark.parametrize(
    ("every", "sizes"), [(0, []), (1, [1, 1, 1, 1, 1]), (2, [1, 1, 2, 1]), (3, [1, 2, 2])]
)
def test_report_every_merges_tokens_behind_the_first(every, sizes):
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, max_tokens=5, report_every=every)
    lane.drain()
    assert [len(p.token_ids) for p in lane.progress(2)] == sizes


def test_a_late_decode_gives_the_same_tokens():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.drain()
    assert lane.result(1).tokens == 10
    lane.decode(2, 1, max_tokens=6)
    lane.drain()
    assert lane.result(2).token_ids == greedy(PROMPT, 6)


def test_a_second_decode_starts_from_the_prompt_again():
    lane = Lane()
    lane.prefill(1, PROMPT)
    for task_id in (2, 3):
        lane.decode(task_id, 1, max_tokens=9)
        lane.drain()
        assert lane.result(task_id).token_ids == greedy(PROMPT, 9)


def test_two_decodes_at_once_are_refused():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    lane.decode(3, 1)
    lane.drain()
    assert "is continued by 2" in lane.end(3).message
    assert lane.result(2).token_ids == greedy(PROMPT, 8)


def test_eos_and_stop_strings_end_a_generation():
    first, second = greedy(PROMPT, 2)
    lane = Lane()
    lane.worker.next_ids = {(*PROMPT, first): EOS}
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    lane.prefill(3, PROMPT)
    lane.decode(4, 3, max_tokens=3, ignore_eos=True)
    lane.drain()
    assert lane.result(2).token_ids == (first,)
    assert lane.result(2).finish_reason is FinishReason.STOP
    assert lane.result(4).token_ids[:2] == (first, EOS)
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, stop=(f"<{second}>",))
    lane.drain()
    assert lane.result(2).text == f"<{first}>"
    assert lane.result(2).finish_reason is FinishReason.STOP


def test_pages_go_when_the_decode_has_ended_and_the_lease_is_released():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, max_tokens=3)
    lane.drain()
    ledger = lane.engine.scheduler.kv_cache.ledger
    assert ledger.held_count == 3
    pages = lane.frames[-1].gauges
    assert pages[gauges.KV_PAGES_HELD] == 3
    assert sum(pages.values()) == ledger.page_count
    lane.engine.apply(Release(KvHandle("llm", 2, 1)))
    lane.engine.apply(Release(KvHandle("other", 3, 1)))
    lane.engine.apply(Release(KvHandle("llm", 3, 99)))
    assert ledger.held_count == 3, "a void lease released something"
    assert not lane.engine.has_work
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    assert ledger.held_count == 0
    assert lane.engine.has_work, "nobody has been told that the pages are free"
    frame = lane.engine.step(0.0, 1.0)
    assert frame.gauges[gauges.KV_PAGES_HELD] == 0
    assert not frame.has_work
    assert not lane.engine.has_work
    lane.decode(4, 1)
    lane.step()
    assert "send the prefill again" in lane.end(4).message


def test_releasing_while_decoding_waits_for_the_decode():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, max_tokens=6)
    lane.step()
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    lane.drain()
    assert lane.result(2).token_ids == greedy(PROMPT, 6)
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_lease_that_is_over_before_its_prompt_is_in_ends_with_the_prompt():
    lane = Lane(tokens=4)
    lane.prefill(1, PROMPT)
    lane.step()
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    lane.drain()
    assert lane.result(1).tokens == len(PROMPT)
    assert len(lane.engine.sequences) == 0
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_pending_segment_holds_the_prompt_back_until_it_is_filled():
    lane = Lane()
    lane.prefill(1, PROMPT, None, (30, 31))
    lane.decode(2, 1, max_tokens=4)
    lane.drain()
    assert 1 not in lane.events
    assert sum(b.tokens for b in lane.worker.batches) == 10, "the known part was not prefilled"
    lane.engine.apply(Amend(1, 1, (40, 41, 42), AmendMode.FILL))
    lane.drain()
    whole = (*PROMPT, 40, 41, 42, 30, 31)
    assert lane.result(1).tokens == 15
    assert lane.result(2).token_ids == greedy(whole, 4)
    assert sum(b.tokens for b in lane.worker.batches) == 10 + 5 + 3


def test_a_prompt_that_starts_with_a_pending_segment():
    lane = Lane()
    lane.prefill(1, None, (30, 31))
    lane.drain()
    lane.engine.apply(Amend(1, 0, (), AmendMode.FILL))
    lane.decode(2, 1, max_tokens=2)
    lane.drain()
    assert lane.result(2).token_ids == greedy((30, 31), 2)


def test_an_empty_last_fill_ends_the_prefill():
    lane = Lane()
    lane.prefill(1, PROMPT, None)
    lane.drain()
    lane.engine.apply(Amend(1, 1, (), AmendMode.FILL))
    lane.drain()
    assert lane.result(1).tokens == 10


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_replace_and_append_change_what_is_decoded(steps):
    lane = Lane(tokens=8)
    lane.prefill(1, PROMPT, (20, 21, 22, 23), None)
    for _ in range(steps):
        lane.step()
    lane.engine.apply(Amend(1, 1, (20, 21, 25), AmendMode.REPLACE))
    lane.engine.apply(Amend(1, 2, (), AmendMode.FILL))
    lane.engine.apply(Amend(1, 0, (26,), AmendMode.APPEND))
    lane.decode(2, 1, max_tokens=5)
    lane.drain()
    assert lane.result(2).token_ids == greedy((*PROMPT, 20, 21, 25, 26), 5)


def test_a_replacement_after_the_prefill_is_in_reaches_the_decode():
    lane = Lane()
    lane.prefill(1, PROMPT, (20, 21))
    lane.drain()
    lane.engine.apply(Amend(1, 1, (22,), AmendMode.REPLACE))
    lane.decode(2, 1, max_tokens=3)
    lane.drain()
    assert lane.result(1).tokens == 12
    assert lane.result(2).token_ids == greedy((*PROMPT, 22), 3)


@pytest.mark.parametrize("is_released", [False, True])
def test_a_replacement_under_a_running_decode_fails_it(is_released):
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    lane.step()
    if is_released:
        lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    too_long = lane.engine.scheduler.limits.context_tokens_max + 1
    lane.engine.apply(Amend(1, 0, (22,) * (too_long if is_released else 1), AmendMode.REPLACE))
    lane.drain()
    assert "amended after its first token" in lane.end(2).message


@pytest.mark.parametrize(
    ("amend", "message"),
    [
        (Amend(1, 7, (1,), AmendMode.FILL), "segment 7 does not exist"),
        (Amend(1, 0, (1,), AmendMode.FILL), "filled already"),
    ],
)
def test_a_wrong_amend_fails_the_prefill(amend, message):
    lane = Lane()
    lane.prefill(1, PROMPT, None)
    lane.engine.apply(amend)
    lane.step()
    assert message in lane.end(1).message
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_prompt_that_is_too_long_is_the_callers_fault():
    lane = Lane(context=12)
    lane.prefill(1, tuple(range(13)))
    lane.prefill(2, PROMPT, None)
    lane.decode(3, 2)
    lane.drain()
    lane.engine.apply(Amend(2, 1, (5, 6, 7), AmendMode.FILL))
    lane.drain()
    for task_id in (1, 2, 3):
        end = lane.end(task_id)
        assert isinstance(end, Failed)
        assert end.is_input
        assert "13 tokens" in end.message
        assert "12" in end.message
        assert "fewer passages" in end.message


def test_an_empty_prompt_is_refused():
    lane = Lane()
    lane.prefill(1, ())
    lane.step()
    assert lane.end(1) == Failed(1, "the prompt is empty", is_input=True)


def test_a_generation_ends_at_the_context():
    lane = Lane(context=14)
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, max_tokens=50)
    lane.drain()
    assert lane.result(2).token_ids == greedy(PROMPT, 4)
    assert lane.result(2).finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"seed": -1}, "seed"),
        ({"stop": ("",)}, "stop"),
    ],
)
def test_a_wrong_sampling_names_its_field(sampling, field):
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1, **sampling)
    lane.drain()
    assert lane.end(2).is_input
    assert lane.end(2).message.startswith(field)


def test_a_foreign_payload_is_refused():
    lane = Lane()
    task = Task(5, PrimitiveKind.EMBEDDING, Identity(5, "n"), EmbedPayload(("a",)))
    lane.engine.apply(Admit(task))
    lane.step()
    assert "EmbedPayload" in lane.end(5).message


@pytest.mark.parametrize("steps", range(4))
def test_a_cancelled_decode_ends_and_leaves_its_prefill(steps):
    lane = Lane(tokens=4)
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    for _ in range(steps):
        lane.step()
    lane.engine.apply(Cancel(2))
    lane.engine.apply(Cancel(2))
    lane.engine.apply(Cancel(77))
    lane.drain()
    assert lane.end(2) == Cancelled(2)
    assert lane.result(1).tokens == 10
    lane.engine.apply(Cancel(1))  # it has ended: nothing happens
    assert not lane.engine.has_work
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_cancelled_prefill_takes_its_decode_along():
    lane = Lane(tokens=4)
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    lane.step()
    lane.engine.apply(Cancel(1))
    lane.engine.apply(Cancel(2))
    lane.drain()
    assert lane.end(1) == Cancelled(1)
    assert lane.end(2) == Cancelled(2)
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_worker_error_fails_the_step_and_nothing_else():
    lane = Lane(seqs=2)
    lane.prefill(1, PROMPT)
    lane.prefill(3, PROMPT[:3])
    lane.prefill(5, PROMPT[:5], None)
    lane.drain()
    lane.prefill(7, PROMPT[:4])
    lane.decode(8, 7)
    lane.worker.error = RuntimeError("out of memory")
    lane.step()
    assert lane.end(7).message == "RuntimeError: out of memory"
    assert lane.end(8).message == "RuntimeError: out of memory"
    lane.decode(4, 3, max_tokens=2)
    lane.engine.apply(Amend(5, 1, (9,), AmendMode.FILL))
    lane.drain()
    assert lane.result(4).token_ids == greedy(PROMPT[:3], 2)
    assert lane.result(5).tokens == 6


@pytest.mark.parametrize("tokens", [4, 16])
def test_numbers_that_are_not_finite_fail_their_sequence_and_no_other(tokens):
    lane = Lane(tokens=tokens)
    lane.worker.bad_token = PROMPT[7]
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    lane.prefill(3, PROMPT[:3])
    lane.decode(4, 3, max_tokens=4)
    lane.prefill(5, PROMPT[1:], reuse=False)
    lane.drain()
    for task_id in (1, 2, 5):
        assert "not finite" in lane.end(task_id).message
    assert lane.result(4).token_ids == greedy(PROMPT[:3], 4)
    lane.engine.apply(Release(KvHandle("llm", 3, 3)))
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


@pytest.mark.parametrize(("tokens", "reused"), [(4, 4), (6, 4), (16, 0)])
def test_pages_with_numbers_that_are_not_finite_are_never_reused(tokens, reused):
    """The second page is bad; the first serves the next request if its step was sound."""
    lane = Lane(tokens=tokens)
    lane.worker.bad_token = PROMPT[7]
    lane.prefill(1, (*PROMPT, 40, 41, 42))
    lane.drain()
    lane.worker.bad_token = None
    lane.prefill(2, (*PROMPT, 40, 41, 42))
    lane.decode(3, 2, max_tokens=3)
    lane.drain()
    assert lane.result(2).tokens_reused == reused
    assert lane.result(3).token_ids == greedy((*PROMPT, 40, 41, 42), 3)


def test_a_decode_that_breaks_later_takes_its_lease_along():
    lane = Lane()
    first, second = greedy(PROMPT, 2)
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    lane.step()
    lane.worker.bad_token = second
    lane.drain()
    assert [t for p in lane.progress(2) for t in p.token_ids] == [first, second]
    assert "not finite" in lane.end(2).message
    lane.engine.apply(Release(lane.result(1).handle))  # it is void: nothing happens
    lane.decode(3, 1)
    lane.drain()
    assert "send the prefill again" in lane.end(3).message
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0


def test_a_sampled_request_gets_its_tokens_whatever_runs_beside_it():
    def run(neighbours, pages=64):
        lane = Lane(pages=pages, context=64)
        lane.prefill(1, PROMPT)
        lane.decode(2, 1, max_tokens=12, temperature=0.8, seed=7)
        for n in range(neighbours):
            lane.prefill(10 + 2 * n, tuple(range(20 + n, 40)))
            lane.decode(11 + 2 * n, 10 + 2 * n, max_tokens=20, temperature=1.0, seed=n)
        lane.drain()
        return lane.result(2).token_ids

    alone = run(0)
    assert run(3) == alone
    assert run(3, pages=18) == alone
    assert alone != greedy(PROMPT, 12)
    ids = list(PROMPT)
    assert alone[0] != next_token(ids), "the seed is not used"


def test_preempted_sequences_give_the_same_tokens():
    lane = Lane(pages=10, context=32)
    prompts = [tuple(range(3 + n, 12 + n)) for n in range(4)]
    for n, ids in enumerate(prompts):
        lane.prefill(2 * n, ids)
        lane.decode(2 * n + 1, 2 * n, max_tokens=14)
    lane.drain()
    results = [lane.result(2 * n + 1) for n in range(4)]
    assert [r.token_ids for r in results] == [greedy(ids, 14) for ids in prompts]
    assert sum(r.preemptions for r in results) > 0, "nothing was preempted: a weak test"


def test_a_parked_prefill_gives_way_and_comes_back():
    lane = Lane(pages=8, context=32)
    lane.prefill(1, tuple(range(10, 30)))
    lane.drain()
    lane.prefill(2, tuple(range(3, 25)))
    lane.decode(3, 2, max_tokens=5)
    lane.drain()
    assert lane.result(3).token_ids == greedy(range(3, 25), 5)
    lane.engine.apply(Release(KvHandle("llm", 3, 2)))
    lane.decode(4, 1, max_tokens=5)
    lane.drain()
    assert lane.result(4).token_ids == greedy(range(10, 30), 5)
    assert lane.result(4).preemptions == 1


def test_a_preemption_during_a_prefill_is_reported_with_the_prompt_alone():
    lane = Lane(pages=12, page_size=4, seqs=2, tokens=4)
    lane.prefill(3, tuple(range(8, 40)), priority=Priority.BULK, has_rider=True)
    lane.decode(4, 3, max_tokens=4)
    lane.prefill(1, tuple(range(5, 13)), has_rider=True)
    lane.decode(2, 1, max_tokens=14)
    lane.drain()
    assert (lane.result(3).preemptions, lane.result(4).preemptions) == (1, 0)


def test_the_same_prefix_is_computed_once_for_a_tenant():
    lane = Lane()
    system = tuple(range(10, 26))
    lane.prefill(1, system, (30,), tenant="a")
    lane.drain()
    lane.prefill(2, system, (31,), tenant="a")
    lane.prefill(3, system, (31,), tenant="b")
    lane.prefill(4, system, (31,), tenant="a", reuse=False)
    for task_id in (2, 3, 4):
        lane.decode(10 + task_id, task_id, max_tokens=3)
    lane.drain()
    assert [lane.result(i).tokens_reused for i in (1, 2, 3, 4)] == [0, 16, 0, 0]
    for task_id in (2, 3, 4):
        assert lane.result(10 + task_id).token_ids == greedy((*system, 31), 3)


def test_more_important_requests_are_served_first():
    lane = Lane(seqs=1)
    lane.prefill(1, PROMPT, priority=Priority.BULK)
    lane.prefill(2, PROMPT[:5], priority=Priority.BULK)
    lane.prefill(3, PROMPT[:6], priority=Priority.NORMAL)
    lane.prefill(4, PROMPT[:7], priority=Priority.NORMAL)
    lane.engine.apply(Steer(task_id=4, priority=Priority.INTERACTIVE))
    lane.drain()
    assert list(lane.events) == [4, 3, 2, 1]


def test_within_a_class_the_shorter_prompt_is_computed_first():
    lane = Lane(seqs=1)
    lane.prefill(1, PROMPT)
    lane.prefill(2, PROMPT[:5])
    lane.drain()
    assert list(lane.events) == [2, 1]


def test_what_is_cached_of_a_prompt_makes_it_shorter():
    lane = Lane(seqs=1)
    long = tuple(range(20, 44))
    lane.prefill(1, long)
    lane.drain()
    lane.prefill(2, PROMPT)
    lane.prefill(3, (*long, 3))
    lane.drain()
    assert list(lane.events) == [1, 3, 2]


def test_nothing_is_computed_before_the_rider_is_there():
    lane = Lane()
    lane.prefill(1, PROMPT, has_rider=True)
    assert not lane.engine.has_work
    lane.decode(2, 1, max_tokens=5)
    lane.drain()
    assert lane.result(2).token_ids == greedy(PROMPT, 5)
    assert len(lane.worker.batches) == 5  # the prompt's last token gives the first of the answer


def test_a_prefill_whose_rider_is_refused_is_computed_all_the_same():
    lane = Lane()
    lane.prefill(1, PROMPT, has_rider=True)
    lane.decode(2, 1, max_tokens=5, continues=99)
    lane.drain()
    assert isinstance(lane.end(2), Failed)
    assert lane.result(1).tokens == len(PROMPT)


def test_a_prefill_whose_rider_never_comes_can_be_cancelled():
    lane = Lane()
    lane.prefill(1, PROMPT, has_rider=True)
    lane.engine.apply(Cancel(1))
    lane.drain()
    assert isinstance(lane.end(1), Cancelled)
    lane.engine.check()


def test_a_small_budget_shortens_prompt_chunks():
    lane = Lane(tokens=64)
    for n in range(30):  # teach the cost model: 1 ms a token
        lane.prefill(100 + n, tuple(range(3, 5 + n)))
        lane.drain()
    lane.prefill(1, tuple(range(60)))
    lane.step(budget_s=0.02)
    short = lane.worker.batches[-1].tokens
    lane.engine.apply(Steer(budget_s=0.0))
    lane.step()
    assert 16 <= short <= 24
    assert lane.worker.batches[-1].tokens == 16
    assert 0.0 < lane.engine.predicted_step_s() < 0.1


def handed_over(lane, prefill=1, task_id=90):
    """Take a prefill out of a lane; return its KV."""
    lane.transfer(task_id, prefill)
    lane.drain()
    return lane.result(task_id)


def held_pages(lane):
    return lane.engine.scheduler.kv_cache.ledger.held_count


@pytest.mark.parametrize("fingerprint", ["fake", "another model"])
@pytest.mark.parametrize("decoded", [0, 6])
def test_a_transferred_prefill_decodes_the_same_tokens_in_another_lane(fingerprint, decoded):
    one = Lane(name="one")
    two = Lane(name="two", fingerprint=fingerprint, pages=40)
    one.prefill(1, PROMPT)
    if decoded:
        one.decode(2, 1, max_tokens=decoded)
    one.drain()
    kv = handed_over(one)
    assert held_pages(one) == 0, "a transfer ends the lease"
    two.decode(3, 1, max_tokens=7, prompt=kv)
    two.drain()
    generated = two.result(3)
    assert generated.token_ids == greedy(PROMPT, 7)
    is_same = fingerprint == "fake"
    computed = sum(batch.tokens for batch in two.worker.batches)
    assert computed == 6 + (1 if is_same else 10)
    assert generated.transfer.nbytes == kv.nbytes == 2 * 8 * len(PROMPT)
    assert ("another model's" in generated.transfer.problem) != is_same
    assert held_pages(two) == 0, "nobody releases what a decode has brought along"


def test_a_transfer_rides_along_with_its_prefill():
    lane = Lane(tokens=4)
    lane.prefill(1, PROMPT)
    lane.transfer(2, 1)
    lane.drain()
    assert list(lane.events) == [1, 2]
    assert lane.result(2).tokens == len(PROMPT)
    assert held_pages(lane) == 0
    lane.prefill(3, PROMPT)
    lane.drain()
    assert lane.result(3).tokens_reused == 8, "its full pages stay in the prefix index"


def test_a_prompt_that_has_lost_its_pages_is_handed_over_without_kv():
    lane = Lane(pages=4, context=16)
    lane.prefill(1, PROMPT)
    lane.drain()
    lane.prefill(2, tuple(range(20, 35)))
    lane.drain()
    kv = handed_over(lane)
    assert (kv.tokens, kv.nbytes) == (0, 0)
    other = Lane(name="two")
    other.decode(3, 1, prompt=kv)
    other.drain()
    assert other.result(3).token_ids == greedy(PROMPT, 8)
    assert "10 prompt tokens were computed anew on two" in other.result(3).transfer.problem


def test_a_lane_without_free_pages_computes_what_it_is_handed():
    one, two = Lane(name="one"), Lane(name="two", pages=4, context=16)
    one.prefill(1, PROMPT)
    kv = handed_over(one)
    two.prefill(5, tuple(range(20, 28)))
    two.decode(6, 5, max_tokens=6)
    two.step()
    two.decode(3, 1, max_tokens=3, prompt=kv)
    two.drain()
    assert two.result(3).token_ids == greedy(PROMPT, 3)
    assert "no KV pages were free" in two.result(3).transfer.problem
    assert two.result(6).token_ids == greedy(tuple(range(20, 28)), 6)


def test_kv_that_can_not_be_loaded_is_computed_anew():
    one, two = Lane(name="one"), Lane(name="two")
    one.prefill(1, PROMPT)
    kv = handed_over(one)
    two.worker.load_kv = refuse
    two.decode(3, 1, prompt=kv)
    two.drain()
    assert two.result(3).token_ids == greedy(PROMPT, 8)
    assert "RuntimeError: the device is full" in two.result(3).transfer.problem


def test_kv_that_can_not_be_copied_out_fails_its_transfer_alone():
    lane = Lane()
    lane.worker.pack_kv = refuse
    lane.prefill(1, PROMPT)
    lane.transfer(2, 1)
    lane.drain()
    assert lane.result(1).tokens == 10
    assert "the device is full" in lane.end(2).message
    assert held_pages(lane) == 0


def refuse(*_):
    raise RuntimeError("the device is full")


@pytest.mark.parametrize("steps", [0, 1])
def test_a_cancelled_transfer_leaves_the_lease_to_its_owner(steps):
    lane = Lane(tokens=4)
    lane.prefill(1, PROMPT)
    lane.transfer(2, 1)
    for _ in range(steps):
        lane.step()
    lane.engine.apply(Cancel(2))
    lane.drain()
    assert isinstance(lane.end(2), Cancelled)
    assert lane.result(1).tokens == 10
    assert held_pages(lane) == 3
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    assert held_pages(lane) == 0


def test_a_cancelled_prefill_takes_its_transfer_along():
    lane = Lane(tokens=4)
    lane.prefill(1, PROMPT)
    lane.transfer(2, 1)
    lane.step()
    lane.engine.apply(Cancel(1))
    lane.drain()
    assert isinstance(lane.end(1), Cancelled)
    assert isinstance(lane.end(2), Cancelled)
    assert held_pages(lane) == 0


def test_a_failed_prefill_fails_its_transfer():
    lane = Lane()
    lane.worker.error = RuntimeError("broken")
    lane.prefill(1, PROMPT)
    lane.transfer(2, 1)
    lane.drain()
    assert "broken" in lane.end(1).message
    assert "broken" in lane.end(2).message


def test_a_transfer_of_an_unknown_or_decoding_prefill_is_refused():
    lane = Lane()
    lane.transfer(2, 1)
    lane.prefill(3, PROMPT)
    lane.decode(4, 3)
    lane.transfer(5, 3)
    lane.drain()
    assert "send the prefill again" in lane.end(2).message
    assert "is continued by 4" in lane.end(5).message


def test_a_decode_that_is_refused_drops_the_prompt_that_it_brought():
    one, two = Lane(name="one"), Lane(name="two")
    one.prefill(1, PROMPT)
    kv = handed_over(one)
    two.decode(3, 1, prompt=kv, temperature=-1.0)
    two.drain()
    assert two.end(3).is_input
    assert held_pages(two) == 0


def test_a_cancelled_decode_frees_the_prompt_that_it_brought():
    one, two = Lane(name="one"), Lane(name="two")
    one.prefill(1, PROMPT)
    kv = handed_over(one)
    two.decode(3, 1, max_tokens=30, prompt=kv)
    two.step()
    assert held_pages(two) > 0
    two.engine.apply(Cancel(3))
    two.drain()
    assert isinstance(two.end(3), Cancelled)
    assert held_pages(two) == 0
