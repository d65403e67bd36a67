"""Long prompts are made by threads: other requests go on, and nothing else changes."""

from concurrent.futures import Future

import pytest

from heddle.core.errors import Cancelled, DeadlineExceeded, InputError, InternalError
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.long_prompts import LONG_CHARS
from tests.helpers.fake_ports import Bench, FakeTokenizer

LONG = "x" * (LONG_CHARS + 1)


class HeldWork:
    """A WorkPool whose work is done when a test says so."""

    def __init__(self):
        self.waiting = []

    def subscribe(self, wake):
        pass

    def submit(self, work):
        future = Future()
        self.waiting.append((future, work))
        return future

    def do(self, place=0):
        future, work = self.waiting.pop(place)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(FakeTokenizer, "context_tokens_max", 10 * LONG_CHARS)
    return HeldWork()


@pytest.fixture
def bench(threads):
    return Bench(threads=threads)


def test_a_question_does_not_wait_for_the_tokenising_of_a_long_prompt(bench, threads, oneshot):
    long = bench.submit(oneshot, {"query": LONG})
    short = bench.submit(oneshot, {"query": "why"})
    assert short.answer.passages
    assert len(threads.waiting) == 1
    assert not any(type(event).__name__ == "Answer" for event in long.events)
    threads.do()
    bench.cycle()
    assert long.answer.passages
    bench.assert_idle()


def test_the_prompt_is_the_same_as_without_threads(bench, threads, oneshot, monkeypatch):
    sent = {}
    for name, one in (("with", bench), ("without", Bench())):
        one.submit(oneshot, {"query": LONG})
        while one is bench and threads.waiting:
            threads.do()
            one.cycle()
        kinds = (PrimitiveKind.PREFILLING, PrimitiveKind.DECODING)
        tasks = [c.task for c in one.llm.commands if getattr(c, "task", None)]
        sent[name] = [(task.kind, task.payload) for task in tasks if task.kind in kinds]
    assert sent["with"] == sent["without"]
    assert len(sent["with"]) == 2


def test_a_short_prompt_is_made_at_once(bench, threads, oneshot):
    assert bench.submit(oneshot).answer.passages
    assert threads.waiting == []


def test_a_request_that_is_taken_back_is_never_tokenised(bench, threads, draft, monkeypatch):
    call = bench.submit(draft, {"query": LONG})
    bench.cancel(call)
    assert isinstance(call.error, Cancelled)
    monkeypatch.setattr(FakeTokenizer, "encode_prompt", None)  # a call of it fails
    threads.do()
    bench.cycle()
    assert not bench.llm.commands
    bench.assert_idle()


def test_one_taken_back_while_a_thread_is_at_it_goes_no_further(bench, threads, draft):
    call = bench.submit(draft, {"query": LONG})
    [(future, work)] = threads.waiting
    assert future.set_running_or_notify_cancel()
    bench.cancel(call)
    future.set_result(work())
    bench.cycle()
    assert isinstance(call.error, Cancelled)
    assert not bench.llm.commands
    bench.assert_idle()


def test_a_deadline_ends_one_that_is_being_tokenised(bench, threads, draft):
    call = bench.submit(draft, {"query": LONG}, deadline_s=1.0)
    bench.cycle(after_s=2.0)
    assert isinstance(call.error, DeadlineExceeded)
    bench.assert_idle()


def test_a_long_prompt_that_cannot_fit_is_refused_for_its_request_alone(
    bench, threads, draft, monkeypatch
):
    monkeypatch.setattr(FakeTokenizer, "context_tokens_max", 1000)
    call = bench.submit(draft, {"query": LONG})
    other = bench.submit(draft, {"query": "why"})
    threads.do()
    bench.cycle()
    assert isinstance(call.error, InputError)
    assert other.answer.text
    bench.assert_idle()


def test_a_tokenizer_that_breaks_ends_its_request_alone(bench, threads, draft, monkeypatch):
    monkeypatch.setattr(FakeTokenizer, "encode_prompt", None)
    call = bench.submit(draft, {"query": LONG})
    threads.do()
    bench.cycle()
    assert isinstance(call.error, InternalError)
    bench.assert_idle()
