"""Each rule complains where it is broken, and only there."""

import random

import numpy as np
import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.errors import DeadlineExceeded, EngineError
from heddle.core.frames import Cancelled, Done, Frame, Progress
from heddle.core.passages import Passage
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, SearchPayload, Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle, Prefilled
from heddle.core.search_scope import SearchScope
from heddle.core.tasks import Identity, Task
from heddle.runtime.counters import Counters
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestFailed,
    Retrieved,
    TokenDelta,
)
from heddle.simulator.checks.blame import BlameCheck
from heddle.simulator.checks.check import PROBLEMS_MAX, Check
from heddle.simulator.checks.ends import EndCheck
from heddle.simulator.checks.leftovers import LeftoverCheck
from heddle.simulator.checks.prefixes import PrefixCheck
from heddle.simulator.checks.searches import SearchCheck
from heddle.simulator.checks.streams import StreamCheck
from heddle.simulator.cost_model_vector import CostModelScanner
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.ticket import Ticket
from heddle.simulator.timeline import Timeline
from heddle.simulator.workload import SHELF, Arrival, one_shot

QUERY = np.array([[1.0, 0.0, 0.0, 0.0]], np.float32)
RECEIPT = None


def ticket(**options):
    workflow = one_shot(random.Random(1))
    return Ticket(Arrival(1.0, workflow, {"query": "river"}, **options), request_id=7)


def admit(task_id, payload, *, tenant="", node="find"):
    return Admit(Task(task_id, PrimitiveKind.SEARCHING, Identity(7, node, 0, tenant), payload))


def frame(*events):
    return Frame("lane", 1, 0.0, events)


def test_a_check_notes_a_bounded_number_of_problems():
    check = Check()
    for number in range(PROBLEMS_MAX + 5):
        check.complain(f"problem {number}")
    assert len(check.problems) == PROBLEMS_MAX


class TestStreams:
    def heard(self, *texts, wrote):
        check, asked = StreamCheck(), ticket()
        node = next(n for n in asked.arrival.workflow.nodes.values() if n.id == "answer")
        check.heard(asked, NodeStarted("answer", 0), 1.0)
        for text in texts:
            check.heard(asked, TokenDelta("answer", text), 1.0)
        check.heard(asked, Answer(wrote, (), {node.output: wrote}, RECEIPT), 2.0)
        return check.problems

    def test_what_was_shown_is_what_was_written(self):
        assert self.heard("w1 ", "w2 ", wrote="w1 w2") == []
        assert self.heard("one\n", "two\n", wrote=("one", "two")) == []

    @pytest.mark.parametrize("texts", [("w1 ", "w1 ", "w2 "), ("w1 ",), ("w2 ", "w1 ")])
    def test_other_text_is_noticed(self, texts):
        assert "which wrote 'w1 w2'" in self.heard(*texts, wrote="w1 w2")[0]

    @pytest.mark.parametrize("event", [NodeStarted("answer", 0), NodeFinished("answer", 0)])
    def test_one_turn_starts_and_ends_once(self, event):
        check, asked = StreamCheck(), ticket()
        check.heard(asked, event, 1.0)
        check.heard(ticket(), event, 1.0)
        assert not check.problems
        check.heard(asked, event, 1.0)
        assert "told twice" in check.problems[0]


class TestEnds:
    @pytest.mark.parametrize("patience", ["deadline_s", "cancel_after_s"])
    def test_an_end_after_the_patience_is_noticed(self, patience):
        check, asked = EndCheck(), ticket(**{patience: 0.5})
        check.heard(asked, TokenDelta("answer", "w1"), 1.7)
        check.heard(asked, RequestFailed(DeadlineExceeded("late")), 1.5)
        assert not check.problems
        check.heard(asked, RequestFailed(DeadlineExceeded("late")), 1.6)
        assert "0.100000 s after its" in check.problems[0]

    def test_one_without_patience_may_take_its_time(self):
        check = EndCheck()
        check.heard(ticket(), RequestFailed(DeadlineExceeded("late")), 601.0)
        assert not check.problems


class TestLeftovers:
    def check(self):
        check = LeftoverCheck(latency_s=0.01)
        check.sent("lane", admit(1, SearchPayload(QUERY, 1)), 1.0)
        return check

    def test_a_step_may_end_that_began_before_the_cancel_arrived(self):
        check = self.check()
        check.sent("lane", Cancel(1), 2.0)
        check.stepped("lane", frame(Progress(1)), 2.01)
        check.stepped("lane", frame(Cancelled(1)), 3.0)
        assert not check.problems

    def test_later_work_for_a_cancelled_task_is_noticed(self):
        check = self.check()
        check.sent("lane", Cancel(1), 2.0)
        check.stepped("lane", frame(Progress(1)), 2.02)
        assert "0.020000 s after its end" in check.problems[0]

    def test_so_is_work_for_a_request_that_has_ended_without_a_cancel(self):
        check = self.check()
        check.heard(ticket(), RequestFailed(DeadlineExceeded("late")), 2.0)
        check.stepped("lane", frame(Progress(1)), 2.02)
        assert "request 7" in check.problems[0]


class TestSearches:
    def scanner(self):
        return CostModelScanner(SimulatedDevice(Timeline(), random.Random(0)))

    def found(self, *, tenant="", topk=3, nprobe=12, where=()):
        """Return what a check expects of a search, nearest first."""
        check = SearchCheck(scanner=self.scanner(), has_owners=True)
        found = check._expected([SearchPayload(QUERY, topk, nprobe)], SearchScope(tenant, where))
        return None if found is None else found[0]

    def problems(self, chunk_ids, *, tenant="", where=()):
        check = SearchCheck(scanner=self.scanner(), has_owners=True)
        check.sent("vector", admit(1, SearchPayload(QUERY, 3, 12), tenant=tenant), 1.0)
        passages = tuple(Passage(i, "", "", "") for i in chunk_ids)
        check.heard(ticket(tenant=tenant, where=where), Retrieved("find", passages), 2.0)
        return check.problems

    @pytest.mark.parametrize("tenant", ["", "a", "b"])
    def test_the_nearest_of_a_tenant_are_right_for_it_alone(self, tenant):
        assert self.problems(self.found(tenant=tenant), tenant=tenant) == []

    def test_a_hit_less_is_noticed(self):
        assert "there is" in self.problems(self.found()[1:])[0]

    def test_a_chunk_of_another_tenant_is_noticed(self):
        first, second, _ = self.found()
        told = self.problems([first, second, 3])  # chunk 3 is of tenant b
        assert "given chunk 3, hidden from tenant ''" in told[0]

    def test_a_chunk_that_the_filter_hides_is_noticed(self):
        where = ((SHELF, ("1",)),)
        assert self.problems(self.found(where=where), where=where) == []
        assert "hidden from" in self.problems([0], where=where)[0]

    def test_passages_that_were_not_searched_for_are_noticed(self):
        check = SearchCheck(scanner=self.scanner(), has_owners=True)
        check.heard(ticket(), Retrieved("find", ()), 2.0)
        assert "didn't search for" in check.problems[0]

    def test_a_search_that_goes_on_to_further_lists_is_not_compared(self):
        assert self.found(tenant="b", topk=30, nprobe=1) is None


class TestPrefixes:
    def reused(self, tokens, *, tenant):
        """Return what is said of a second prompt that reuses tokens of tenant a's first."""
        check = PrefixCheck()
        for task_id, whose in ((1, "a"), (3, tenant)):
            prompt = PrefillPayload((Segment((5, 6, 7, 8)),))
            check.sent("llm", admit(task_id, prompt, tenant=whose), 1.0)
            check.sent("llm", admit(task_id + 1, DecodePayload(task_id, Sampling())), 1.0)
            check.stepped("llm", frame(Progress(task_id + 1, (9,))), 1.5)
        done = Prefilled(KvHandle("llm", 1, 3), 4, tokens)
        check.stepped("llm", frame(Done(3, done)), 2.0)
        return check.problems

    @pytest.mark.parametrize("tokens", [0, 4, 5])
    def test_a_tenant_reuses_its_own_prompts_and_answers(self, tokens):
        assert self.reused(tokens, tenant="a") == []

    def test_another_tenant_reuses_nothing(self):
        assert self.reused(0, tenant="b") == []
        assert "tenant 'b' has sent none" in self.reused(4, tenant="b")[0]


class TestBlame:
    def test_a_cycle_with_failures_needs_a_fault(self):
        check, counters = BlameCheck(), Counters()
        failed = RequestFailed(EngineError("gone", engine="llm", request_ids=(7,)))
        check.cycled(counters, lambda: 0, 1.0)
        for _ in range(2):
            check.heard(ticket(), failed, 2.0)
        check.cycled(counters, lambda: 1, 2.0)
        assert not check.problems
        counters.retries += 1
        check.cycled(counters, lambda: 1, 3.0)
        assert "failed 2 times until 3.000000, and 1 fault(s)" in check.problems[0]

    def test_a_deadline_needs_none(self):
        check = BlameCheck()
        check.heard(ticket(), RequestFailed(DeadlineExceeded("late")), 2.0)
        check.cycled(Counters(), lambda: 0, 2.0)
        assert not check.problems
