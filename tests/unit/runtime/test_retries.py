"""What is tried once more, what is not, and what a lost lane or frame does."""

import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.errors import DeadlineExceeded, DiskFull, EngineError, Unreachable
from heddle.core.frames import Done, Failed, Frame, Progress
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Priority
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.events import NodeStarted, TokenDelta
from heddle.workflow.indexing import indexing_workflow
from heddle.workflow.ragraph import RAGraph
from tests.helpers.degraded import reasons
from tests.helpers.fake_ports import VECTOR, Bench, FakePort


def fail_first(port, times, message="it broke"):
    """Make a port fail its first tasks."""
    left = [times]

    def on_admit(task):
        if left[0] <= 0:
            return None
        left[0] -= 1
        return (Failed(task.task_id, message),)

    port.on_admit = on_admit


@pytest.mark.parametrize("name", ["embedding", "vector"])
class TestEmbeddingAndSearch:
    def test_is_sent_once_more(self, bench, search, name):
        fail_first(getattr(bench, name), 1)
        receipt = bench.submit(search).answer.receipt
        assert receipt.retries == 1
        (note,) = reasons(receipt)
        assert "retried after: it broke" in note
        bench.assert_idle()

    def test_and_not_without_end(self, search, name):
        bench = Bench(limits=RuntimeLimits(retries_max=1))
        port = getattr(bench, name)
        fail_first(port, 2)
        error = bench.submit(search).error
        assert isinstance(error, EngineError)
        assert error.engine == name
        assert "it broke" in str(error)
        assert len(port.tasks()) == 2
        bench.assert_idle()

    def test_and_not_at_all_where_so_configured(self, search, name):
        bench = Bench(limits=RuntimeLimits(retries_max=0))
        fail_first(getattr(bench, name), 1)
        assert isinstance(bench.submit(search).error, EngineError)
        bench.assert_idle()

    def test_and_not_after_the_deadline(self, bench, search, name):
        port = getattr(bench, name)
        port.holds = lambda task: True
        call = bench.submit(search, deadline_s=1.0)
        port.fail(*port.open)
        bench.cycle(1.5)
        assert len(port.tasks()) == 1
        assert call.error
        bench.assert_idle()


def test_a_second_try_is_timed_by_itself(bench, search):
    bench.vector.holds = lambda task: True
    call = bench.submit(search)
    bench.cycle(3.0)
    bench.vector.fail(*bench.vector.open)
    bench.cycle()
    bench.clock.time_s += 0.5
    bench.vector.answer_all()
    bench.cycle()
    span = call.answer.receipt.spans[-1]
    assert (span.kind, span.ready_s, span.sent_s, span.done_s) == (
        PrimitiveKind.SEARCHING,
        3.0,
        3.0,
        3.5,
    )
    assert bench.runtime.lanes["vector"].stage_s == 0.5


def test_a_failed_part_sends_all_rows_again_and_cancels_the_rest():
    bench = Bench(embedding=3)
    bench.embedding.holds = lambda task: True
    graph = RAGraph("many").add_generation("plan", "Plan {query}", "parts", parse="lines")
    graph.add_retrieval("find", query="parts", topk=1)
    bench.llm.texts = {"plan": ["a\nbb\nccc\ndddd"]}
    call = bench.submit(graph.compile())  # three rows are sent, the fourth waits
    (first,) = bench.embedding.open
    bench.embedding.answer(first)
    bench.cycle()
    (second,) = bench.embedding.open
    bench.embedding.fail(second)
    bench.cycle()
    (third,) = bench.embedding.open
    assert bench.embedding.open[third].payload.texts == ("a", "bb", "ccc")
    while bench.embedding.open:
        bench.embedding.answer_all()
        bench.cycle()
    searched = [t.payload.queries[:, 0].tolist() for t in bench.vector.tasks()]
    assert searched == [[1, 2, 3], [4]]
    assert call.answer.receipt.retries == 1
    bench.assert_idle()


class TestGeneration:
    def start(self, bench, draft):
        bench.llm.holds = lambda task: True
        call = bench.submit(draft)
        prefill, decode = bench.llm.open
        return call, prefill, decode

    def finish(self, bench, call):
        bench.llm.answer_all()
        bench.cycle()
        assert call.answer.text == "hello"
        assert call.answer.receipt.retries == 1
        assert len([e for e in call.events if isinstance(e, NodeStarted)]) == 1
        bench.assert_idle()

    def test_a_failed_prefill_is_sent_again_with_its_decode(self, bench, draft):
        call, prefill, decode = self.start(bench, draft)
        bench.llm.fail(prefill)
        bench.cycle()
        assert [c.task_id for c in bench.llm.sent(Cancel)] == [decode]
        again, riding = bench.llm.open
        assert bench.llm.open[riding].payload.prefill_task == again
        assert bench.llm.credits.used == 2
        self.finish(bench, call)
        assert bench.llm.released == [prefill, again]

    def test_a_decode_without_tokens_is_sent_again_with_its_prefill(self, bench, draft):
        call, prefill, decode = self.start(bench, draft)
        bench.llm.answer(prefill)
        bench.llm.fail(decode)
        bench.cycle()
        assert len(bench.llm.open) == 2
        assert bench.llm.released == [prefill]
        self.finish(bench, call)

    def test_a_decode_whose_tokens_were_seen_goes_on_behind_them(self, bench, draft):
        call, prefill, decode = self.start(bench, draft)
        bench.llm.answer(prefill)
        bench.llm.post(Progress(decode, (7,), "h"), Progress(decode, (8, 9), "el"))
        bench.llm.fail(decode)
        bench.cycle()
        again, riding = bench.llm.open
        first = bench.llm.tasks()[0].payload
        assert bench.llm.open[again].payload.token_ids == (*first.token_ids, 7, 8, 9)
        assert bench.llm.open[riding].payload.continues == 3
        bench.llm.answer(again)
        bench.llm.post(Progress(riding, (10,), "l"))
        bench.llm.fail(riding)
        bench.cycle()
        again, riding = bench.llm.open
        assert bench.llm.open[again].payload.token_ids == (*first.token_ids, 7, 8, 9, 10)
        assert bench.llm.open[riding].payload.continues == 4
        bench.llm.shown["write"] = "hell"
        bench.llm.answer_all()
        bench.cycle()
        assert "".join(e.text for e in call.events if isinstance(e, TokenDelta)) == "hello"
        receipt = call.answer.receipt
        assert (receipt.retries, receipt.resumed) == (2, 2)
        assert "went on behind 1 tokens after: it broke" in receipt.degradations[1].reason
        bench.assert_idle()

    def test_a_prompt_that_is_computed_again_counts_once(self, bench, draft):
        alone = Bench().submit(draft).answer.receipt
        call, prefill, decode = self.start(bench, draft)
        bench.llm.answer(prefill)
        bench.llm.post(Progress(decode, (7,), "h"))
        bench.llm.fail(decode)
        bench.cycle()
        bench.llm.shown["write"] = "h"
        self.finish(bench, call)
        receipt = call.answer.receipt
        counted = (receipt.prompt_tokens, receipt.prompt_tokens_reused)
        assert counted == (alone.prompt_tokens, alone.prompt_tokens_reused)

    def test_tokens_that_showed_nothing_are_drawn_again(self, bench, draft):
        call, prefill, decode = self.start(bench, draft)
        bench.llm.answer(prefill)
        bench.llm.post(Progress(decode, (7,)))
        bench.llm.fail(decode)
        bench.cycle()
        _, riding = bench.llm.open
        assert bench.llm.open[riding].payload.continues == 0
        self.finish(bench, call)

    def test_a_text_without_its_tokens_can_t_go_on(self, bench, draft):
        call, prefill, decode = self.start(bench, draft)
        bench.llm.answer(prefill)
        bench.llm.post(Progress(decode, text="hel"))
        bench.llm.fail(decode)
        bench.cycle()
        assert isinstance(call.error, EngineError)
        assert [e.text for e in call.events if isinstance(e, TokenDelta)] == ["hel"]
        assert len(bench.llm.sent(Admit)) == 2
        assert bench.llm.released == [prefill]
        bench.assert_idle()

    def test_tokens_of_a_given_up_try_are_not_shown(self, bench, draft):
        call, prefill, decode = self.start(bench, draft)
        # The prefill's failure and a token of its decode cross on the way.
        bench.llm.post(Failed(prefill, "it broke"), Progress(decode, (1,), "stale"))
        bench.cycle()
        self.finish(bench, call)
        assert "".join(e.text for e in call.events if isinstance(e, TokenDelta)) == "hello"

    def test_it_fails_in_the_end(self, draft):
        bench = Bench(limits=RuntimeLimits(retries_max=1))
        call, prefill, _ = self.start(bench, draft)
        bench.llm.fail(prefill)
        bench.cycle()
        bench.llm.fail(min(bench.llm.open))
        bench.cycle()
        assert isinstance(call.error, EngineError)
        bench.assert_idle()


class TestLostLane:
    def test_what_was_in_flight_is_sent_to_the_next_epoch(self, bench, search, draft):
        bench.vector.holds = bench.llm.holds = lambda task: True
        searching, writing = bench.submit(search), bench.submit(draft)
        bench.vector.lose_lane()
        bench.llm.lose_lane()
        bench.vector.holds = bench.llm.holds = lambda task: False
        bench.cycle()
        assert "lane lost" in searching.answer.receipt.degradations[0].reason
        assert writing.answer.receipt.retries == 1
        assert bench.llm.commands[-1].handle.epoch == 2
        bench.assert_idle()

    def test_a_lane_lost_again_and_again_fails_its_requests(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search)
        for _ in range(1 + RuntimeLimits().retries_max):
            bench.vector.lose_lane()
            bench.cycle()
        assert isinstance(call.error, EngineError)
        assert "lane lost" in str(call.error)
        bench.assert_idle()

    def test_frames_of_an_earlier_epoch_are_dropped(self, bench, search):
        bench.submit(search)
        bench.vector.lose_lane()
        bench.submit(search)
        dropped = bench.runtime.counters.frames_dropped
        bench.vector.holds = lambda task: True
        call = bench.submit(search)
        (task_id,) = bench.vector.open
        stale = Failed(task_id, "from another life")
        bench.vector.deliver(Frame("vector", 1, 0.0, (stale,), number=99))
        bench.cycle()
        assert bench.runtime.counters.frames_dropped == dropped + 1
        bench.vector.answer(task_id)
        bench.cycle()
        assert call.answer.receipt.retries == 0

    def test_tasks_whose_failure_was_lost_end_with_the_next_epoch(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search)
        bench.vector.open.clear()  # its host thinks that it was answered
        bench.vector.lose_lane()
        bench.vector.holds = lambda task: False
        other = bench.submit(search)
        assert call.answer.receipt.retries == 1
        assert other.answer.receipt.retries == 0
        bench.assert_idle()


class TestLostIngestion:
    """Vectors on their way to a lane that is lost: stored once more, or told clearly."""

    @pytest.fixture
    def ingesting(self, bench):
        bench.vector.holds = lambda task: True
        inputs = {"texts": ("a", "bb"), "chunk_ids": (4, 5)}
        return bench.submit(indexing_workflow(), inputs, deadline_s=9.0, priority=Priority.BULK)

    def test_goes_to_the_next_epoch_with_the_same_chunks(self, bench, ingesting):
        bench.vector.lose_lane()
        bench.cycle(1.0)
        (again,) = bench.vector.open.values()
        first, second = bench.vector.tasks()
        assert again is second
        assert second.seconds_left == 8.0
        assert second.payload.chunk_ids.tolist() == first.payload.chunk_ids.tolist() == [4, 5]
        assert (second.payload.vectors == first.payload.vectors).all()
        assert len(bench.embedding.tasks()) == 1  # the vectors were there already
        bench.vector.answer_all()
        bench.cycle()
        assert ingesting.answer.slots["stored"].count == 2
        assert "lane lost" in ingesting.answer.receipt.degradations[0].reason
        bench.assert_idle()

    def test_fails_clearly_in_the_end(self, bench, ingesting):
        for _ in range(1 + RuntimeLimits().retries_max):
            bench.vector.lose_lane()
            bench.cycle()
        assert isinstance(ingesting.error, EngineError)
        assert "ingestion" in str(ingesting.error)
        assert "lane lost" in str(ingesting.error)
        bench.assert_idle()

    def test_a_full_disk_is_told_as_such_and_not_tried_again(self, bench, ingesting):
        (task,) = bench.vector.open.values()
        bench.vector.fail(task.task_id, "storing vectors failed: no room", is_full=True)
        bench.cycle()
        assert isinstance(ingesting.error, DiskFull)
        assert "no room" in str(ingesting.error)
        assert len(bench.vector.tasks()) == 1
        bench.assert_idle()

    def test_a_corpus_that_is_away_is_told_as_such_and_not_tried_again(self, bench, ingesting):
        (task,) = bench.vector.open.values()
        bench.vector.fail(task.task_id, "the database can't be reached", is_away=True)
        bench.cycle()
        assert isinstance(ingesting.error, Unreachable)
        assert "can't be reached" in str(ingesting.error)
        assert len(bench.vector.tasks()) == 1
        bench.assert_idle()

    def test_ends_with_its_deadline_while_the_lane_starts(self, bench, ingesting):
        bench.vector.lose_lane()
        bench.cycle()
        bench.cycle(10.0)
        assert isinstance(ingesting.error, DeadlineExceeded)
        assert "ingestion" in str(ingesting.error)
        bench.assert_idle()


class TestLostFrame:
    def test_what_it_may_have_held_is_sent_again(self, bench, search):
        bench.vector.holds = lambda task: True
        first, second = bench.submit(search), bench.submit(search)
        one, two = bench.vector.open
        result = bench.vector.result(bench.vector.open[one])
        bench.vector.post(Done(one, result), lost=True)
        bench.cycle()
        assert not first.ends
        bench.vector.post()  # the next frame shows the gap
        bench.cycle()
        assert [c.task_id for c in bench.vector.sent(Cancel)] == [one, two]
        bench.vector.answer_all()
        bench.cycle()
        for call in (first, second):
            assert "frames" in call.answer.receipt.degradations[0].reason
        bench.assert_idle()

    def test_a_generation_in_flight_starts_over(self, bench, draft):
        bench.llm.holds = lambda task: True
        call = bench.submit(draft)
        prefill, _ = bench.llm.open
        bench.llm.post(Done(prefill, bench.llm.result(bench.llm.open[prefill])), lost=True)
        bench.llm.post()
        bench.cycle()
        bench.llm.answer_all()
        bench.cycle()
        assert call.answer.receipt.retries == 1
        bench.assert_idle()

    def test_a_repeated_frame_changes_nothing(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search)
        (task_id,) = bench.vector.open
        bench.vector.holds = lambda task: False
        frame = bench.vector.post(Failed(task_id, "once"))
        bench.vector.deliver(frame._replace())
        bench.cycle()
        assert bench.runtime.counters.frames_dropped == 1
        assert call.answer.receipt.retries == 1
        bench.assert_idle()

    def test_frames_without_numbers_are_all_taken(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search)
        (task_id,) = bench.vector.open
        done = Done(task_id, bench.vector.result(bench.vector.open.pop(task_id)))
        bench.vector.deliver(Frame("vector", 1, 0.0, (done,)))
        bench.cycle()
        assert call.answer


def test_a_second_terminal_event_is_dropped(bench, search):
    bench.vector.holds = lambda task: True
    call = bench.submit(search)
    (task_id,) = bench.vector.open
    result = bench.vector.result(bench.vector.open[task_id])
    bench.vector.post(Done(task_id, result), Done(task_id, result), Failed(task_id, "no"))
    bench.cycle()
    assert call.answer
    assert bench.runtime.counters.events_dropped == 2
    bench.assert_idle()


def test_a_lane_that_fails_everything_draws_no_second_try(search):
    spare = FakePort("spare", VECTOR, credits=100)
    bench = Bench(more=(spare,))
    spare.on_admit = lambda task: (Failed(task.task_id, "full disk"),)
    call = bench.submit(search)
    assert [task.kind for task in spare.tasks()] == [PrimitiveKind.SEARCHING]
    assert "full disk" in call.answer.receipt.degradations[0].reason
    bench.assert_idle()


def test_where_all_lanes_have_failed_one_is_tried_again(search):
    spare = FakePort("spare", VECTOR)
    bench = Bench(more=(spare,))
    for port in (bench.vector, spare):
        fail_first(port, 1)
    assert bench.submit(search).answer.receipt.retries == 2
    bench.assert_idle()
