"""Searches for a list's items begin while it is written, and find what they would find later."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.commands import Cancel
from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Done, Progress
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import DecodePayload, EmbedPayload, PrefillPayload, SearchPayload
from heddle.core.results import FinishReason, Generated
from heddle.core.tasks import Optimizations
from heddle.passes.runner import PassRunner
from heddle.runtime.events import NodeFinished, NodeStarted
from heddle.workflow.presets import multistep
from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.degraded import kinds
from tests.helpers.fake_ports import EMBED, Bench, FakePort, ManualClock, is_search


class Writing(Bench):
    """A bench on which `decompose` writes and ends as the test says."""

    def __init__(self, workflow=None, **options):
        super().__init__(**options)
        self.llm.holds = lambda task: (
            task.identity.node == "decompose" and isinstance(task.payload, DecodePayload)
        )
        self.text = ""
        self.workflow = workflow or multistep(topk=2).compile()

    def write(self, text):
        self.text += text
        (task_id,) = self.llm.open
        self.llm.post(Progress(task_id, (1,), text))
        self.cycle()

    def end(self, text=None):
        (task_id,) = self.llm.open
        text = self.text if text is None else text
        self.llm.post(Done(task_id, Generated(text, (1, 2), FinishReason.STOP)))
        self.cycle()

    @property
    def embedded(self):
        payloads = [t.payload for t in self.embedding.tasks()]
        return [p.texts for p in payloads if isinstance(p, EmbedPayload)]

    @property
    def searched(self):
        payloads = [t.payload for t in self.vector.tasks()]
        return [p.rows for p in payloads if isinstance(p, SearchPayload)]


def passages_of(call):
    return [p.chunk_id for p in call.answer.passages]


def whole(text, mode=Optimizations.OFF):
    bench = Writing()
    call = bench.submit(bench.workflow, optimizations=mode)
    bench.write(text)
    bench.end()
    bench.assert_idle()
    return call


def test_each_item_is_searched_for_when_its_line_has_ended():
    bench = Writing()
    call = bench.submit(bench.workflow)
    bench.write("who")
    assert bench.embedded == []
    bench.write("\nwhen it")
    assert bench.embedded == [("why who",)]
    assert bench.searched == [1]
    bench.write(" was\n")
    assert bench.embedded == [("why who",), ("why when it was",)]
    assert bench.searched == [1, 1]
    bench.end()
    receipt = call.answer.receipt
    assert receipt.rows_ahead == 4  # two texts, two queries
    assert "pipeline_decoding" in receipt.passes
    assert receipt.degradations == ()
    bench.assert_idle()


def test_items_wait_for_the_whole_list_while_an_engine_works_for_others():
    bench = Writing()
    bench.vector.holds = lambda task: True
    other = bench.submit(RAGraph("search").add_retrieval("find", topk=2).compile())
    bench.submit(bench.workflow)
    bench.write("who\nwhen it was\n")
    assert bench.embedded == [("why",)]
    bench.vector.answer_all()
    bench.cycle()
    assert other.answer
    bench.write("where")
    bench.end()
    assert bench.embedded == [("why",), ("why who", "why when it was", "why where")]


def test_the_last_line_follows_when_the_list_is_whole():
    bench = Writing()
    call = bench.submit(bench.workflow)
    bench.write("who\nwhen it was")
    bench.end()
    assert bench.embedded == [("why who",), ("why when it was",)]
    assert bench.searched == [1, 1]
    assert call.answer.receipt.rows_ahead == 2
    assert passages_of(call) == passages_of(whole("who\nwhen it was"))
    bench.assert_idle()


def test_it_is_answered_before_the_list_is_whole_or_after():
    bench = Writing()
    bench.embedding.holds = lambda task: True
    call = bench.submit(bench.workflow)
    bench.write("who\nwhen it was\n")
    bench.end()
    assert bench.searched == []
    bench.embedding.answer_all()
    bench.cycle()
    assert bench.searched == [2]
    assert passages_of(call) == passages_of(whole("who\nwhen it was\n"))
    bench.assert_idle()


def test_a_list_that_turns_out_to_be_another_is_searched_for_again():
    bench = Writing()
    call = bench.submit(bench.workflow)
    bench.write('["who", "when it was"')  # never closed: it is read line by line
    assert bench.embedded == [("why who", "why when it was")]
    bench.end()
    answer = call.answer
    assert bench.embedded[-1] == ('why ["who", "when it was"',)
    assert passages_of(call) == passages_of(whole('["who", "when it was"'))
    assert kinds(answer.receipt) == ["pipeline", "pipeline"]
    assert "retrieve.embedding@0 began again" in answer.receipt.degradations[0].reason
    bench.assert_idle()


def test_rows_in_flight_of_another_list_are_taken_back():
    bench = Writing()
    bench.embedding.holds = lambda task: len(task.payload.texts[0]) < 10
    call = bench.submit(bench.workflow)
    bench.write('["who",')
    bench.end()
    assert passages_of(call) == passages_of(whole('["who",'))
    bench.assert_idle()


def test_an_empty_text_falls_back_to_the_question_alone():
    bench = Writing()
    call = bench.submit(bench.workflow)
    bench.write("\n\n")
    bench.end()
    assert bench.embedded == [("why",)]
    assert call.answer.receipt.rows_ahead == 0


def test_rows_that_have_no_credit_wait():
    bench = Writing(embedding=1)
    bench.embedding.holds = lambda task: True
    call = bench.submit(bench.workflow)
    bench.write("who\nwhen\nwhere\n")
    assert bench.embedded == [("why who",)]
    bench.end()
    for _ in range(3):
        bench.embedding.answer_all()
        bench.cycle()
    assert bench.embedded == [("why who",), ("why when",), ("why where",)]
    assert passages_of(call) == passages_of(whole("who\nwhen\nwhere\n"))
    bench.assert_idle()


@pytest.mark.parametrize("items", [4, 5])
@pytest.mark.parametrize("ends_first", [True, False])
def test_each_row_goes_to_one_of_two_engines_once(items, ends_first):
    second = FakePort("second", EMBED, 1)
    bench = Writing(embedding=1, more=[second])
    both = bench.embedding, second
    for port in both:
        port.holds = lambda task: True
    call = bench.submit(bench.workflow)
    lines = [f"item {number}" for number in range(items)]
    for line in lines:
        bench.write(f"{line}\n")
    if ends_first:
        bench.end()
    for _ in lines:
        for port in both:
            port.answer_all()
        bench.cycle()
    if not ends_first:
        bench.end()
    sent = [text for port in both for task in port.tasks() for text in task.payload.texts]
    assert sorted(sent) == [f"why {line}" for line in lines]
    assert passages_of(call) == passages_of(whole(bench.text))
    bench.assert_idle()


@pytest.mark.parametrize("stage", ["embedding", "vector"])
def test_a_row_that_fails_is_sent_again(stage):
    bench = Writing()
    port = getattr(bench, stage)
    port.holds = lambda task: True
    call = bench.submit(bench.workflow)
    bench.write("who\n")
    if stage == "vector":
        assert bench.searched == [1]
    (task_id,) = port.open
    port.holds = lambda task: False
    port.fail(task_id)
    bench.cycle()
    bench.write("when it was\n")
    bench.end()
    assert call.answer.receipt.retries == 1
    assert passages_of(call) == passages_of(whole("who\nwhen it was\n"))
    bench.assert_idle()


def test_a_loop_begins_with_the_first_item(listing1):
    bench = Bench()
    bench.llm.holds = lambda task: (
        task.identity.node == "0" and isinstance(task.payload, DecodePayload)
    )
    call = bench.submit(listing1)
    (task_id,) = bench.llm.open
    bench.llm.post(Progress(task_id, (1,), "who\nwh"))
    bench.cycle()
    assert [t.payload.texts for t in bench.embedding.tasks()] == [("who",)]
    bench.llm.post(Done(task_id, Generated("who\nwhen", (1, 2), FinishReason.STOP)))
    bench.cycle()
    assert [t.payload.texts for t in bench.embedding.tasks()] == [("who",), ("when",)]
    assert call.answer.receipt.rows_ahead == 2
    bench.assert_idle()


def test_callers_hear_of_a_node_that_begins_before_the_other_has_ended():
    bench = Writing()
    call = bench.submit(bench.workflow)
    bench.write("who\n")
    bench.end()
    told = [e for e in call.events if isinstance(e, NodeStarted | NodeFinished)]
    assert told.index(NodeStarted("retrieve", 0)) < told.index(NodeFinished("decompose", 0))
    assert told.count(NodeStarted("retrieve", 0)) == 1


def test_what_waits_for_something_else_waits():
    graph = RAGraph("two")
    graph.add_tool("look", lambda query: "notes", ("query",), "notes")
    graph.add_generation("decompose", "{query}", "items", parse="lines")
    graph.add_retrieval("retrieve", "{notes} {items}", topk=2, collect=True)
    graph.add_generation("answer", "{docs}{query}")
    bench = Writing(graph.compile())
    bench.tools.holds = lambda task: True
    bench.submit(bench.workflow)
    bench.write("who\n")
    assert bench.embedded == []
    bench.tools.answer_all()
    bench.cycle()
    bench.write("when\n")
    assert bench.embedded == [("notes who", "notes when")]
    bench.end()
    bench.assert_idle()


def test_a_request_that_is_cancelled_leaves_nothing():
    bench = Writing()
    bench.embedding.holds = lambda task: True
    call = bench.submit(bench.workflow)
    bench.write("who\nwhen\n")
    bench.cancel(call)
    bench.assert_idle()


@pytest.mark.parametrize("how", ["off", "disabled"])
def test_it_can_be_left_out(how):
    runner = PassRunner(ManualClock(), disabled=frozenset({"pipeline_decoding"}))
    bench = Writing(runner=runner if how == "disabled" else None)
    mode = Optimizations.OFF if how == "off" else Optimizations.EXACT
    call = bench.submit(bench.workflow, optimizations=mode)
    bench.write("who\nwhen\n")
    assert bench.embedded == []
    bench.end()
    assert call.answer.receipt.rows_ahead == 0


def test_a_list_that_is_taken_again_is_whole_at_once():
    graph = RAGraph("again").add_generation("decompose", "{query}", "items", parse="lines")
    graph.add_retrieval("retrieve", "{items}", topk=2, collect=True)
    graph.add_edge(START, "decompose").add_edge("decompose", "retrieve")
    graph.add_edge("retrieve", lambda state: END if state["turn"] == 2 else "decompose")
    bench = Writing(graph.compile())
    call = bench.submit(bench.workflow)
    bench.write("who\nwhen\n")
    bench.end()
    assert call.answer.receipt.repeated == 1
    assert bench.embedded == [("who",), ("who",)]
    bench.assert_idle()


@given(
    st.text('ab"[],\n\r 1', max_size=40),
    st.lists(st.integers(0, 40), max_size=5),
    st.integers(1, 3),
)
def test_any_text_in_any_pieces_finds_the_same(text, cuts, credits):
    bench = Writing(embedding=credits, vector=credits)
    call = bench.submit(bench.workflow)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, stop in pairwise(places):
        bench.write(text[start:stop])
    bench.end()
    assert passages_of(call) == passages_of(whole(text))
    bench.assert_idle()


class Leading(Writing):
    """A bench whose searches run until they are asked to end; its engines know their costs."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.vector.holds = is_search
        self.llm.costs = CostSnapshot("llm", 1, {"call": 0.001, "prefill_tokens": 1e-3})
        self.llm.post()
        self.runtime.lanes["vector"].learn_stage(1.0)

    def find(self, place=0):
        """End one of the searches that run."""
        self.vector.answer(list(self.vector.open)[place])
        self.cycle()

    @property
    def leads(self):
        payloads = [t.payload for t in self.llm.tasks() if isinstance(t.payload, PrefillPayload)]
        return [p for p in payloads if p.is_speculative]


def listed(bench, text="who\nwhen it was\nwhere they all went\n", **options):
    """Submit a request whose three searches run, its list written."""
    call = bench.submit(bench.workflow, **options)
    for line in text.splitlines(keepends=True):
        bench.write(line)
    bench.end()
    return call


def test_a_prompt_begins_with_the_passages_of_the_first_queries():
    bench = Leading()
    call = listed(bench, tenant="a")
    bench.find()
    (lead,) = bench.leads
    bench.vector.answer_all()
    bench.cycle()
    receipt = call.answer.receipt
    prompt = next(
        t.payload
        for t in reversed(bench.llm.tasks())
        if t.identity.node == "answer" and isinstance(t.payload, PrefillPayload)
    )
    assert prompt.token_ids[: len(lead.token_ids)] == lead.token_ids
    assert len(lead.token_ids) < len(prompt.token_ids)
    assert (lead.cache_salt, lead.rows) == ("a", 0)
    (speculation,) = receipt.speculations
    assert speculation.is_adopted
    assert "split_prefill" in receipt.passes
    bench.assert_idle()


def test_it_goes_on_with_the_next_ones():
    bench = Leading()
    call = listed(bench)
    bench.find()
    bench.find()
    first, second = bench.leads
    assert second.token_ids[: len(first.token_ids)] == first.token_ids
    bench.vector.answer_all()
    bench.cycle()
    assert [s.is_adopted for s in call.answer.receipt.speculations] == [True, True]
    bench.assert_idle()


def test_what_is_being_computed_is_not_taken_back():
    bench = Leading()
    bench.llm.holds = lambda task: (
        getattr(task.payload, "is_speculative", False)
        or (task.identity.node == "decompose" and isinstance(task.payload, DecodePayload))
    )
    call = listed(bench)
    bench.find()
    bench.find()
    assert len(bench.leads) == 1
    assert [c for c in bench.llm.sent(Cancel) if c.task_id in bench.llm.open] == []
    bench.vector.answer_all()
    bench.cycle()
    assert [s.is_adopted for s in call.answer.receipt.speculations] == [True]
    bench.assert_idle()


def test_later_queries_that_end_first_begin_nothing():
    bench = Leading()
    listed(bench)
    bench.find(place=1)
    assert bench.leads == []


def test_an_engine_that_is_busy_is_left_alone():
    bench = Leading()
    bench.submit(bench.workflow)
    bench.write("who\n")
    bench.find()  # the list is still being written
    assert bench.leads == []


@pytest.mark.parametrize(
    "options",
    [
        {"optimizations": Optimizations.OFF},
        {"optimizations": Optimizations.APPROX, "kv_reuse": KvReuse(ReusePolicy.FUSIONRAG, 0.15)},
    ],
    ids=["off", "chunk_kv"],
)
def test_only_where_prompts_are_computed_from_their_beginning(options):
    bench = Leading()
    call = listed(bench, **options)
    if bench.vector.open:
        bench.find()
    assert bench.leads == []
    bench.vector.answer_all()
    bench.cycle()
    assert call.answer.receipt.speculations == ()
