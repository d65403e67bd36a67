"""The engine's promises, on a fake model: events, ends, leases, amendments, failures."""

import pytest

from heddle.core import gauges
from heddle.core.commands import Admit, Amend, AmendMode, Cancel, Release, Steer, Transfer
from heddle.core.errors import ConfigError
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


@pytest.mark.parametrize(("every", "sizes"), [(0, []), (1, [1, 1, 1, 1, 1]), (2, [2, 2, 1])])
def test_report_every_merges_tokens(every, sizes):
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
    assert "being decoded by 2" in lane.end(3).message
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
    ledger = lane.engine._scheduler.ledger
    assert ledger.held_count == 3
    pages = lane.frames[-1].gauges
    assert pages[gauges.KV_PAGES_HELD] == 3
    assert sum(pages.values()) == ledger.page_count
    lane.engine.apply(Release(KvHandle("llm", 2, 1)))
    lane.engine.apply(Release(KvHandle("other", 3, 1)))
    lane.engine.apply(Release(KvHandle("llm", 3, 99)))
    assert ledger.held_count == 3, "a void lease released something"
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    assert ledger.held_count == 0
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
    assert lane.engine._scheduler.ledger.held_count == 0


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


def test_a_replacement_under_a_running_decode_fails_it():
    lane = Lane()
    lane.prefill(1, PROMPT)
    lane.decode(2, 1)
    lane.step()
    lane.engine.apply(Amend(1, 0, (22,), AmendMode.REPLACE))
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
    assert lane.engine._scheduler.ledger.held_count == 0


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
    lane.engine.apply(Release(KvHandle("llm", 3, 1)))
    assert not lane.engine.has_work
    assert lane.engine._scheduler.ledger.held_count == 0


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
    assert lane.engine._scheduler.ledger.held_count == 0


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
    assert lane.engine._scheduler.ledger.held_count == 0


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
    assert lane.engine._scheduler.ledger.held_count == 0


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
    assert list(lane.events) == [4, 3, 1, 2]


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


class Exchange:
    """Carries sequences in a dict."""

    def __init__(self):
        self.boxes = {}

    def send(self, lane, sequence):
        self.boxes.setdefault(lane, []).append(sequence)

    def receive(self, lane):
        return self.boxes.pop(lane, [])


@pytest.mark.parametrize("fingerprint", ["fake", "another model"])
@pytest.mark.parametrize("decoded", [0, 6])
def test_a_transferred_prefill_decodes_the_same_tokens_in_another_lane(fingerprint, decoded):
    exchange = Exchange()
    one = Lane(name="one", exchange=exchange)
    two = Lane(name="two", exchange=exchange, fingerprint=fingerprint, pages=40)
    two.prefill(50, (4, 5, 6))
    one.prefill(1, PROMPT)
    if decoded:
        one.decode(2, 1, max_tokens=decoded)
    one.drain()
    one.engine.apply(Transfer(one.result(1).handle, "two"))
    two.step()
    two.decode(3, 1, max_tokens=7)
    two.drain()
    assert two.result(3).token_ids == greedy(PROMPT, 7)
    computed = sum(batch.tokens for batch in two.worker.batches)
    assert computed == 3 + 6 + (1 if fingerprint == "fake" else 10)
    two.engine.apply(Release(KvHandle("two", 3, 1)))
    two.engine.apply(Release(KvHandle("two", 3, 50)))
    assert two.engine._scheduler.ledger.held_count == 0


def test_a_transfer_without_an_exchange_says_so():
    lane = Lane()
    with pytest.raises(ConfigError, match="no KV exchange"):
        lane.engine.apply(Transfer(KvHandle("llm", 3, 1), "two"))
