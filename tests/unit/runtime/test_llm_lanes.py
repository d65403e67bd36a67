"""Generations whose prompt is computed on one lane and answered on another, as the runtime sees it.

The engines are real, on fake workers; the test steps and kills them.
"""

import pytest

from heddle.core.credits import Credits
from heddle.core.payloads import DecodePayload, TransferPayload
from heddle.engines.llm.lanes.disaggregated_port import DisaggregatedPort, LlmLane
from heddle.engines.llm.lanes.lane_role import LaneRole
from heddle.runtime.events import TokenDelta
from heddle.workflow.ragraph import RAGraph
from tests.helpers.fake_ports import EMBED, TOOL, VECTOR, Bench, FakePort
from tests.unit.engines.llm.fake_worker import LanePort


class Disaggregated(Bench):
    """A runtime over a prefill and a decode lane."""

    def __init__(self, seats=4, **options):
        self.one, self.two = LanePort("one", pages=256), LanePort("two", pages=256)
        lanes = [LlmLane(self.one, LaneRole.PREFILL, seats)]
        lanes.append(LlmLane(self.two, LaneRole.DECODE, seats))
        self.port = DisaggregatedPort("llm", lanes, lambda _: True, lambda _: None, Credits(16))
        self.others = [FakePort(*args) for args in (("e", EMBED), ("v", VECTOR), ("t", TOOL))]
        super().__init__(ports=[*self.others, self.port], **options)

    def cycle(self, after_s=0.0):
        self.clock.time_s += after_s
        for _ in range(3):  # the others answer at once
            self.runtime.cycle(self.clock.time_s)

    def step(self, *lanes):
        for lane in lanes or (self.one, self.two):
            lane.step()
        self.cycle()

    def drain(self):
        for _ in range(500):
            if not self.runtime.requests.open:
                break
            self.step()
        self.step()
        assert not self.runtime.requests.open
        assert not self.runtime.tasks.open
        assert not self.runtime.tasks.leases
        assert self.port.credits.used == 0
        assert (self.one.held_pages, self.two.held_pages) == (0, 0)
        assert self.port.tasks_by_lane == {"one": 0, "two": 0}


@pytest.fixture
def workflow():
    graph = RAGraph("w").add_retrieval("find", topk=1)
    graph.add_generation("answer", "Of {docs}, {query}?", max_tokens=12)
    return graph.compile()


@pytest.fixture
def expected(workflow):
    bench = Disaggregated()
    call = bench.submit(workflow)
    bench.drain()
    return call.answer.text


def test_a_receipt_counts_what_moved(workflow):
    bench = Disaggregated()
    calls = [bench.submit(workflow) for _ in range(3)]
    bench.drain()
    for call in calls:
        receipt = call.answer.receipt
        assert receipt.kv_transfers == 1
        assert receipt.kv_transfer_bytes == 16 * receipt.prompt_tokens
        assert receipt.kv_transfer_s >= 0
        assert not receipt.degradations


@pytest.mark.parametrize("lane", ["one", "two"])
@pytest.mark.parametrize("steps", range(5))
def test_a_lane_lost_before_the_first_token_costs_a_retry(workflow, expected, lane, steps):
    bench = Disaggregated()
    call = bench.submit(workflow)
    for _ in range(steps):
        bench.step(bench.one)
    had_work = len(getattr(bench, lane).live) > 0
    getattr(bench, lane).lose()
    bench.cycle()
    bench.drain()
    assert call.answer.text == expected
    assert call.answer.receipt.retries == had_work


def test_an_answer_that_has_begun_outlives_its_decode_lane(workflow, expected):
    bench = Disaggregated()
    shown = bench.submit(workflow)
    while not bench.two.sent(DecodePayload):
        bench.step(bench.one)
    bench.step(bench.two)
    waiting = bench.submit(workflow)
    assert bench.one.sent(TransferPayload)[1:], "the second is on the prefill lane"
    bench.two.lose()
    bench.cycle()
    bench.drain()
    assert shown.answer.text == expected
    assert "".join(e.text for e in shown.events if isinstance(e, TokenDelta)).strip() == expected
    assert shown.answer.receipt.resumed == 1
    assert waiting.answer.text == expected
    assert not waiting.answer.receipt.retries


@pytest.mark.parametrize("steps", range(8))
def test_cancelled_at_any_moment_nothing_stays(workflow, steps):
    bench = Disaggregated(seats=1)
    calls = [bench.submit(workflow) for _ in range(3)]
    for _ in range(steps):
        bench.step()
    for call in calls:
        bench.cancel(call)
    bench.drain()


def test_rounds_start_again_on_the_prefill_lane():
    graph = RAGraph("r").add_retrieval("find", topk=1)
    graph.add_generation("answer", "Of {docs}, {query}?", max_tokens=12, retrieve_every=5)
    bench = Disaggregated()
    call = bench.submit(graph.compile())
    bench.drain()
    receipt = call.answer.receipt
    assert receipt.generated_tokens == 12
    assert receipt.kv_transfers == len(receipt.splices) + 1 == 3
    assert len(bench.two.sent(DecodePayload)) == 3
