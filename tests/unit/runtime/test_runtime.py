"""A request from submit to its one terminal event, on scripted engines."""

import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.errors import (
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    InputError,
    InternalError,
    WorkflowError,
)
from heddle.core.frames import Frame
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Caller, Optimizations, Priority
from heddle.passes.runner import PassRunner
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.dispatcher import UNREAD_TOKENS
from heddle.runtime.events import NodeFinished, NodeStarted, Retrieved, TokenDelta
from heddle.runtime.step_trace import Overlap, StepTrace
from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import IndexingNode
from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.degraded import reasons
from tests.helpers.fake_ports import EMBED, LLM, Bench, FakePort, FakeTokenizer, ManualClock


def told(call):
    return [(type(event).__name__, getattr(event, "node", "")) for event in call.events]


def test_events_of_a_chain_come_in_order(bench, hyde):
    bench.llm.texts = {"imagine": ["an idea"], "answer": ["it is so"]}
    call = bench.submit(hyde)
    assert told(call) == [
        ("NodeStarted", "imagine"),
        ("TokenDelta", "imagine"),
        ("TokenDelta", "imagine"),
        ("NodeFinished", "imagine"),
        ("NodeStarted", "find"),
        ("Retrieved", "find"),
        ("NodeFinished", "find"),
        ("NodeStarted", "answer"),
        ("TokenDelta", "answer"),
        ("TokenDelta", "answer"),
        ("NodeFinished", "answer"),
        ("Answer", ""),
    ]
    answer = call.answer
    assert answer.text == "it is so"
    assert [p.chunk_id for p in answer.passages] == [7, 8]  # "an idea" has 7 characters
    assert answer.slots["idea"] == "an idea"
    assert "".join(e.text for e in call.events if isinstance(e, TokenDelta)) == "an ideait is so"
    bench.assert_idle()


def test_the_receipt_counts_and_times(bench, hyde):
    call = bench.submit(hyde)
    receipt = call.answer.receipt
    assert (receipt.prompt_tokens, receipt.prompt_tokens_reused) == (20, 8)
    assert receipt.generated_tokens == 4
    assert receipt.lists_scanned == receipt.lists_probed == 1
    assert receipt.retries == 0
    assert receipt.degradations == ()
    assert [span.kind.value for span in receipt.spans] == [
        "prefilling",
        "decoding",
        "embedding",
        "searching",
        "prefilling",
        "decoding",
    ]
    assert all(0 <= span.ready_s <= span.sent_s <= span.done_s for span in receipt.spans)


def test_a_decode_is_sent_with_its_prefill(bench, draft):
    bench.llm.holds = lambda task: True
    bench.submit(draft)
    prefill, decode = bench.llm.tasks()
    assert decode.payload.prefill_task == prefill.task_id
    assert bench.llm.credits.used == 2


@pytest.mark.parametrize(("awaits_end_alone", "every"), [(True, UNREAD_TOKENS), (False, 1)])
def test_a_text_that_nobody_reads_is_told_in_larger_pieces(bench, draft, awaits_end_alone, every):
    bench.submit(draft, awaits_end_alone=lambda: awaits_end_alone)
    _, decode = bench.llm.sent(Admit)
    assert decode.report_every == every


def test_every_task_carries_who_asks(bench, hyde):
    bench.submit(hyde, tenant="t", priority=Priority.INTERACTIVE, deadline_s=5.0)
    for port in (bench.embedding, bench.vector, bench.llm):
        for task in port.tasks():
            assert task.identity.tenant == "t"
            assert task.identity.priority is Priority.INTERACTIVE
            assert task.seconds_left == 5.0
    depths = [task.identity.depth for task in bench.llm.tasks()]
    assert depths == sorted(depths, reverse=True)
    assert bench.llm.tasks()[0].payload.cache_salt == "t"


def test_branches_run_side_by_side(bench):
    graph = RAGraph("branches")
    graph.add_retrieval("a", query="{query} a", output="docs_a")
    graph.add_retrieval("b", query="{query} b", output="docs_b")
    graph.add_generation("join", "Join {docs_a} {docs_b}")
    bench.vector.holds = lambda task: True
    call = bench.submit(graph.compile())
    assert len(bench.vector.open) == 2
    second, first = sorted(bench.vector.open, reverse=True)
    bench.vector.answer(second)
    bench.cycle()
    assert not bench.llm.commands
    bench.vector.answer(first)
    bench.cycle()
    assert call.answer.text == "hello"
    bench.assert_idle()


def test_answers_don_t_depend_on_which_branch_is_first():
    graph = RAGraph("two_drafts")
    for side in ("left", "right"):
        graph.add_retrieval(f"find_{side}", query=f"{{query}} {side}", output=f"docs_{side}")
        graph.add_generation(side, f"Draft from {{docs_{side}}}", f"draft_{side}")
    graph.add_generation("answer", "Join {draft_left} and {draft_right}")
    workflow = graph.compile()

    def passages(order):
        bench = Bench()
        bench.vector.holds = lambda task: True
        call = bench.submit(workflow)
        for task_id in sorted(bench.vector.open, reverse=order):
            bench.vector.answer(task_id)
            bench.cycle()
        return call.answer.passages

    assert passages(False) == passages(True)
    assert len(passages(False)) == 6  # of both drafts, each chunk once: 8..12 and 9..13


def test_an_answer_without_a_generation_is_its_passages(bench, search):
    answer = bench.submit(search).answer
    assert answer.text == ""
    assert [p.chunk_id for p in answer.passages] == [3, 4]
    assert answer.slots["docs"] == answer.passages


def test_a_tool_runs_between_nodes(bench):
    graph = RAGraph("tool").add_tool("shout", str.upper, ["query"], "loud")
    graph.add_generation("answer", "Answer {loud}")
    call = bench.submit(graph.compile())
    assert call.answer.slots["loud"] == "WHY"
    assert told(call)[:2] == [("NodeStarted", "shout"), ("NodeFinished", "shout")]


def test_indexing_is_a_bulk_request(bench):
    node = IndexingNode("index", "texts", "chunk_ids", "stored")
    inputs = frozenset({"texts", "chunk_ids"})
    workflow = compile_draft(Draft("index", {"index": node}, (), (), (), (), inputs, 1))
    values = {"texts": ("a", "bb"), "chunk_ids": (4, 5)}
    call = bench.submit(workflow, values, priority=Priority.BULK)
    (ingest,) = bench.vector.tasks()
    assert ingest.payload.chunk_ids.tolist() == [4, 5]
    assert ingest.payload.vectors[:, 0].tolist() == [1.0, 2.0]
    assert call.answer.slots["stored"].count == 2
    bench.assert_idle()


def test_a_failing_request_leaves_the_others_alone(bench, draft, search):
    bench.vector.holds = lambda task: True
    good = bench.submit(search)
    graph = RAGraph("bad").add_generation("w", "Write {query}")
    graph.add_edge(START, "w").add_edge("w", lambda state: 1 / 0)
    bad = bench.submit(graph.compile())
    assert isinstance(bad.error, WorkflowError)
    assert "'w'" in str(bad.error)
    assert "ZeroDivisionError" in str(bad.error)
    bench.vector.answer_all()
    bench.cycle()
    assert good.answer
    bench.assert_idle()


def test_an_edge_to_nowhere_is_named(bench):
    graph = RAGraph("lost").add_generation("w", "Write {query}")
    graph.add_edge(START, "w").add_edge("w", lambda state: "nowhere")
    error = bench.submit(graph.compile()).error
    assert isinstance(error, WorkflowError)
    assert "'nowhere'" in str(error)


def test_a_tokenizer_that_refuses_ends_its_request_only(bench, draft):
    def refuse(parts):
        raise InputError("the question is no text")

    bench.runtime.tokenizer.encode_prompt = refuse
    assert isinstance(bench.submit(draft).error, InputError)
    bench.assert_idle()


def test_a_bug_in_a_request_ends_it_as_internal(bench, draft):
    def crash(parts):
        raise KeyError("a bug")

    bench.runtime.tokenizer.encode_prompt = crash
    assert isinstance(bench.submit(draft).error, InternalError)
    bench.assert_idle()


def test_a_refused_prompt_is_the_caller_s_error(bench, draft):
    bench.llm.holds = lambda task: True
    call = bench.submit(draft)
    prefill, _ = bench.llm.tasks()
    bench.llm.fail(prefill.task_id, "the prompt has 9 tokens, the limit is 5", is_input=True)
    bench.cycle()
    assert isinstance(call.error, InputError)
    assert "limit is 5" in str(call.error)
    assert len(bench.llm.sent(Admit)) == 2  # not sent again
    bench.assert_idle()


class TestInputs:
    def test_missing_and_unknown_ones_are_named(self, bench, search):
        with pytest.raises(InputError, match="needs query"):
            bench.submit(search, {"question": "why"})
        with pytest.raises(InputError, match="no input colour"):
            bench.submit(search, {"query": "why", "colour": "red"})

    @pytest.mark.parametrize("text", ["", "  \n", "x" * 32_769])
    def test_empty_and_endless_questions_are_refused(self, bench, search, text):
        with pytest.raises(InputError, match="query"):
            bench.submit(search, {"query": text})
        bench.assert_idle()

    def test_an_input_other_than_the_question_may_be_empty_but_not_endless(self):
        graph = RAGraph("chat", inputs=("history",)).add_generation("answer", "{history}{query}")
        bench = Bench()
        assert bench.submit(graph.compile(), {"query": "why", "history": ""}).answer.text
        with pytest.raises(InputError, match="history has 32,769 characters"):
            bench.submit(graph.compile(), {"query": "why", "history": "x" * 32_769})
        bench.assert_idle()

    def test_a_deadline_must_be_positive(self, bench, search):
        with pytest.raises(InputError, match="deadline_s"):
            bench.submit(search, deadline_s=0.0)
        bench.assert_idle()

    @pytest.mark.parametrize("missing", ["embedding", "vector"])
    def test_a_missing_engine_is_the_operator_s_error(self, search, missing):
        bench = Bench()
        ports = [port for port in bench.ports if port.name != missing]
        with pytest.raises(ConfigError, match=r"'find' .* needs .*: give the server an index"):
            Bench(ports=ports).submit(search)

    def test_one_credit_is_too_few_for_a_generation(self):
        with pytest.raises(ConfigError, match="give it more"):
            Bench(ports=[FakePort("llm", LLM, credits=1)])


class TestCancel:
    """Cancel at each stage; what was held comes back, and no second event follows."""

    STAGES = ("imagine", "embedding", "searching", "answer", "decoding")

    def hold(self, bench, stage):
        if stage == "embedding":
            bench.embedding.holds = lambda task: True
        elif stage == "searching":
            bench.vector.holds = lambda task: True
        elif stage == "decoding":
            kind = PrimitiveKind.DECODING
            bench.llm.holds = lambda task: task.identity.node == "answer" and task.kind is kind
        else:
            bench.llm.holds = lambda task: task.identity.node == stage

    @pytest.mark.parametrize("stage", STAGES)
    def test_frees_everything(self, bench, hyde, stage):
        self.hold(bench, stage)
        call = bench.submit(hyde)
        (port,) = [p for p in bench.ports if p.open]
        held = list(port.open)
        bench.cancel(call)
        assert isinstance(call.error, Cancelled)
        assert [c.task_id for c in port.sent(Cancel)] == held
        prefills = [t.task_id for t in bench.llm.tasks() if t.kind is PrimitiveKind.PREFILLING]
        assert bench.llm.released == prefills
        bench.assert_idle()

    @pytest.mark.parametrize("stage", STAGES)
    def test_credits_wait_for_the_lane_s_answer(self, bench, hyde, stage):
        self.hold(bench, stage)
        call = bench.submit(hyde)
        (port,) = [p for p in bench.ports if p.open]
        used = port.credits.used
        assert used > 0
        bench.runtime.cancel(call.id, 0.0)
        assert port.credits.used == used  # the lane has not said that it let go
        bench.cycle()
        assert port.credits.used == 0

    def test_before_anything_was_sent(self, bench, hyde):
        call = bench.submit(hyde, cycle=False)
        bench.cancel(call)
        assert isinstance(call.error, Cancelled)
        assert not bench.llm.commands
        bench.assert_idle()

    def test_twice_and_after_the_end_changes_nothing(self, bench, hyde):
        call = bench.submit(hyde)
        bench.cancel(call)
        bench.cancel(call)
        assert call.answer
        bench.assert_idle()

    def test_a_result_that_crosses_the_cancel_is_dropped(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search)
        bench.vector.answer_all()  # on its way when the caller cancels
        bench.cancel(call)
        assert isinstance(call.error, Cancelled)
        bench.assert_idle()

    def test_a_queued_one_leaves_the_queue(self, search):
        bench = Bench(vector=1)
        bench.vector.holds = lambda task: True
        first, second = bench.submit(search), bench.submit(search)
        bench.cancel(second)
        assert len(bench.vector.tasks()) == 1
        bench.vector.answer_all()
        bench.cycle()
        assert first.answer
        bench.assert_idle()


class TestDeadline:
    def test_the_error_says_where_the_time_went(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search, deadline_s=2.0)
        assert bench.cycle(1.9) == pytest.approx(2.0)
        assert not call.ends
        bench.cycle(0.2)
        assert isinstance(call.error, DeadlineExceeded)
        assert "within 2 s;" in str(call.error)
        assert "searching" in str(call.error)
        bench.assert_idle()

    def test_a_result_in_the_same_cycle_wins(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search, deadline_s=2.0)
        bench.vector.answer_all()
        bench.cycle(3.0)
        assert call.answer

    def test_ended_requests_don_t_wake_anyone(self, bench, search):
        bench.submit(search, deadline_s=2.0)
        assert bench.cycle() == float("inf")

    def test_the_deadlines_of_ended_requests_are_forgotten_while_one_runs(self, bench, search):
        bench.vector.holds = lambda task: True
        call = bench.submit(search, deadline_s=1.0)
        bench.vector.holds = lambda task: False
        for _ in range(1000):
            assert bench.submit(search, deadline_s=600.0).answer
        assert len(bench.runtime.requests._deadlines) <= 100
        assert bench.cycle() == pytest.approx(1.0)
        bench.cycle(1.1)
        assert isinstance(call.error, DeadlineExceeded)


class TestAdmission:
    def test_busy_says_how_long_to_wait(self, search):
        bench = Bench(limits=RuntimeLimits(requests_max=3))
        bench.vector.holds = lambda task: task.identity.request_id == 1
        calls = [bench.submit(search)]  # one stays, so the server is never idle
        bench.submit(search)
        bench.cycle(4.0)
        bench.submit(search)  # two ends, four seconds apart
        bench.vector.holds = lambda task: True
        calls += [bench.submit(search) for _ in range(2)]
        with pytest.raises(Busy, match="predicted wait") as refused:
            bench.submit(search)
        assert refused.value.wait_s == pytest.approx(4.0)
        bench.vector.answer_all()
        bench.cycle()
        assert all(call.answer for call in calls)
        bench.assert_idle()

    def test_idle_hours_are_no_wait(self, search):
        bench = Bench(limits=RuntimeLimits(requests_max=1))
        bench.submit(search)
        bench.cycle(3600.0)
        bench.submit(search)
        bench.vector.holds = lambda task: True
        bench.submit(search)
        with pytest.raises(Busy) as refused:
            bench.submit(search)
        assert refused.value.wait_s < 10.0

    def test_bulk_fills_its_share_and_no_more(self, search):
        bench = Bench(limits=RuntimeLimits(requests_max=4, bulk_share=0.5))
        bench.vector.holds = lambda task: True
        for _ in range(2):
            bench.submit(search, priority=Priority.BULK)
        with pytest.raises(Busy):
            bench.submit(search, priority=Priority.BULK)
        for _ in range(2):
            bench.submit(search)
        bench.vector.answer_all()
        bench.cycle()
        bench.assert_idle()

    def test_a_run_whose_first_call_is_refused_is_no_older_than_its_next(self, search):
        bench = Bench(limits=RuntimeLimits(requests_max=1))
        bench.vector.holds = lambda task: True
        run = Caller("run-1")
        bench.submit(search)
        with pytest.raises(Busy):
            bench.submit(search, caller=run)
        for asked in ({"tenant": "other"}, {"caller": run}):
            bench.vector.answer_all()
            bench.cycle()
            bench.submit(search, **asked)
        asked_by = [task.identity for task in bench.vector.tasks()]
        places = [(who.request_id, who.first_request) for who in asked_by]
        assert places == [(1, 0), (2, 0), (3, 3)]

    def test_there_is_always_room_for_one_bulk_request(self, search):
        bench = Bench(limits=RuntimeLimits(requests_max=1, bulk_share=0.0))
        assert bench.submit(search, priority=Priority.BULK).answer


class TestCredits:
    def test_rows_of_a_big_embedding_go_out_as_credits_allow(self, bench):
        bench = Bench(embedding=3)
        bench.embedding.holds = lambda task: True
        graph = RAGraph("many").add_generation("plan", "Plan {query}", "parts", parse="lines")
        graph.add_retrieval("find", query="parts", topk=1)
        bench.llm.texts = {"plan": ["\n".join(f"part {'x' * i}" for i in range(8))]}
        call = bench.submit(graph.compile())
        sizes = []
        while bench.embedding.open:
            assert bench.embedding.credits.used <= 3
            sizes += [task.payload.rows for task in bench.embedding.open.values()]
            bench.embedding.answer_all()
            bench.cycle()
        assert sizes == [3, 3, 2]
        searched = [task.payload.queries[:, 0].tolist() for task in bench.vector.tasks()]
        lengths = [len(f"part {'x' * i}".strip()) for i in range(8)]
        assert searched == [lengths[:3], lengths[3:6], lengths[6:]]
        assert call.answer
        bench.assert_idle()

    def test_rows_that_end_out_of_order_are_joined_in_order(self):
        bench = Bench(embedding=4)
        bench.embedding.holds = lambda task: True
        other = bench.submit(RAGraph("s").add_retrieval("f").compile())  # takes one of the four
        graph = RAGraph("many").add_generation("plan", "Plan {query}", "parts", parse="lines")
        graph.add_retrieval("find", query="parts", topk=1)
        bench.llm.texts = {"plan": ["a\nbb\nccc\ndddd"]}
        bench.submit(graph.compile())
        first, second = bench.embedding.open
        bench.embedding.answer(first)  # the other request's: now the fourth row can go
        bench.cycle()
        third = max(bench.embedding.open)
        assert third > second
        bench.embedding.answer(third)
        bench.embedding.answer(second)
        bench.cycle()
        assert bench.vector.tasks()[-1].payload.queries[:, 0].tolist() == [1, 2, 3, 4]
        assert other.answer
        bench.assert_idle()

    def test_no_engine_is_ever_sent_more_than_it_holds(self, hyde):
        bench = Bench(embedding=1, vector=1, llm=2)
        calls = [bench.submit(hyde, cycle=False) for _ in range(10)]
        bench.cycle()  # Credits.take raises where it would be exceeded
        assert all(call.answer for call in calls)
        bench.assert_idle()


class TestPreferredEngines:
    def test_carry_out_their_kinds_alone_and_others_the_rest(self, search):
        own = FakePort("own", EMBED, credits=1)
        own.holds = lambda task: True
        bench = Bench(more=(own,), preferred={"own"})
        calls = [bench.submit(search) for _ in range(2)]
        assert len(own.tasks()) == 1  # the other waits for its credit
        own.holds = lambda task: False
        own.answer_all()
        bench.cycle()
        assert [len(call.answer.passages) for call in calls] == [2, 2]
        assert len(own.tasks()) == 2
        assert bench.embedding.tasks() == []
        assert len(bench.vector.tasks()) == 2


class TestOptimizations:
    def test_off_runs_no_pass(self, search):
        class Explosive:
            name = "explosive"

            def apply(self, graph):
                raise AssertionError("a pass ran")

        runner = PassRunner(ManualClock(), graph_passes=(Explosive(),), cycle_passes=())
        bench = Bench(runner=runner)
        assert bench.submit(search, optimizations=Optimizations.OFF).answer
        error = bench.submit(search).error
        assert isinstance(error, InternalError)
        assert "explosive" in str(error)
        bench.assert_idle()

    def test_kept_graphs_are_named_in_the_receipt(self, search):
        class Explosive:
            name = "explosive"

            def apply(self, graph):
                raise AssertionError("a pass ran")

        passes = {"graph_passes": (Explosive(),), "cycle_passes": ()}
        bench = Bench(runner=PassRunner(ManualClock(), on_failure="keep", **passes))
        receipt = bench.submit(search).answer.receipt
        assert receipt.passes == ()
        assert reasons(receipt) == ["pass 'explosive' failed: AssertionError: a pass ran"]

    def test_order_edges_hold_without_passes_and_not_with(self):
        graph = RAGraph("order").add_retrieval("first", output="docs_1")
        graph.add_retrieval("second", output="docs_2")
        graph.add_edge(START, "first").add_edge("first", "second").add_edge("second", END)
        workflow = graph.compile()
        for optimizations, started in ((Optimizations.OFF, 1), (Optimizations.EXACT, 2)):
            bench = Bench()
            bench.embedding.holds = lambda task: True
            call = bench.submit(workflow, optimizations=optimizations)
            assert len(bench.embedding.open) == started
            bench.embedding.holds = lambda task: False
            bench.embedding.answer_all()
            bench.cycle()
            pruned = optimizations is Optimizations.EXACT
            assert call.answer.receipt.passes == (("prune_dependencies",) if pruned else ())


class TestLoops:
    def test_listing_1_takes_one_item_a_turn_and_ends(self, bench, listing1):
        bench.llm.texts = {"0": ['"one"\n"three"'], "2": ["first", "second"]}
        call = bench.submit(listing1)
        texts = [task.payload.texts for task in bench.embedding.tasks()]
        assert texts == [("one",), ("three",)]
        assert call.answer.text == "second"
        assert call.answer.slots["subquestion"] == ("one", "three")
        turns = [(e.node, e.turn) for e in call.events if isinstance(e, NodeFinished)]
        assert turns == [("0", 0), ("1", 0), ("2", 0), ("1", 1), ("2", 1)]
        assert [e.turn for e in call.events if isinstance(e, NodeStarted)] == [0, 0, 0, 1, 1]
        bench.assert_idle()

    def test_max_steps_stops_a_loop_without_end(self, bench):
        graph = RAGraph("endless", max_steps=5).add_generation("again", "Again {query}")
        graph.add_edge(START, "again").add_edge("again", lambda state: "again")
        call = bench.submit(graph.compile())
        assert isinstance(call.error, WorkflowError)
        assert "max_steps=5" in str(call.error)
        assert len([e for e in call.events if isinstance(e, NodeFinished)]) == 5
        bench.assert_idle()

    def test_each_node_may_run_once_whatever_the_bound_of_loops(self, bench):
        graph = RAGraph("many", max_steps=5)
        for number in range(70):
            graph.add_generation(f"part_{number}", "Of {query}", f"part_{number}")
        graph.add_join("parts", list(graph.nodes), "parts")
        call = bench.submit(graph.add_generation("answer", "{parts}").compile())
        assert call.answer.text
        assert len([e for e in call.events if isinstance(e, NodeFinished)]) == 71
        bench.assert_idle()

    def test_a_loop_past_its_list_says_so(self, bench):
        graph = RAGraph("past")
        graph.add_generation(0, "Decompose {query}", "part")
        graph.add_retrieval(1, query="part")
        graph.add_edge(START, 0).add_edge(0, 1).add_edge(1, lambda state: 1)
        bench.llm.texts = {"0": ["one"]}
        error = bench.submit(graph.compile()).error
        assert isinstance(error, WorkflowError)
        assert "slot 'part' has 1 item(s)" in str(error)
        bench.assert_idle()

    def test_collected_passages_add_up_each_once(self, bench):
        graph = RAGraph("collect")
        graph.add_retrieval("find", query="{query} {draft}", topk=2, collect=True)
        graph.add_generation("write", "Improve {draft} with {docs}", "draft")
        graph.add_edge(START, "find").add_edge("find", "write")
        graph.add_edge("write", lambda state: END if state["turn"] == 3 else "find")
        bench.llm.texts = {"write": ["x", "xx", "xxx"]}
        call = bench.submit(graph.compile())
        # The queries have 3, 5 and 6 characters ("why" alone at first), so the second and the
        # third search share chunk 6.
        found = [[p.chunk_id for p in e.passages] for e in call.events if isinstance(e, Retrieved)]
        assert found == [[3, 4], [5, 6], [6, 7]]
        assert [p.chunk_id for p in call.answer.slots["docs"]] == [3, 4, 5, 6, 7]
        assert call.answer.passages == call.answer.slots["docs"]

    def test_several_queries_merge_to_the_nearest(self, bench):
        graph = RAGraph("merge").add_generation("plan", "Plan {query}", "parts", parse="lines")
        graph.add_retrieval("find", query="parts", topk=3)
        bench.llm.texts = {"plan": ["a\nbb"]}
        call = bench.submit(graph.compile())
        # Hits 1, 2, 3 and 2, 3, 4 at distances 0, 1, 2: chunk 2 is nearest from the second query.
        found = [(p.chunk_id, p.distance) for p in call.answer.passages]
        assert found == [(1, 0.0), (2, 0.0), (3, 1.0)]


def test_steps_whose_frames_come_together_are_traced_one_by_one():
    trace = StepTrace()
    bench = Bench(tracers=(trace,))
    for age_s in (0.06, 0.03, 0.0):
        bench.llm.deliver(Frame("llm", 1, 0.02, (), age_s=age_s))
    bench.cycle(1.0)
    assert trace.busy_s() == {"llm": pytest.approx(0.06)}
    assert trace.overlap() == Overlap(pytest.approx(0.06), 0.0)


def test_frames_come_from_their_own_engine_only(search):
    other = FakePort("other", EMBED)
    bench = Bench()
    bench = Bench(ports=[*bench.ports, other])
    bench.vector.holds = lambda task: True
    bench.ports[1].holds = lambda task: True
    call = bench.submit(search)
    (task_id,) = bench.ports[1].open
    other.fail(task_id)
    bench.cycle()
    assert not call.ends
    assert bench.runtime.counters.events_dropped == 1


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenised(bench, draft, monkeypatch):
    monkeypatch.setattr(FakeTokenizer, "encode_prompt", None)  # a call of it fails
    call = bench.submit(draft, {"query": "x" * 2000})
    assert isinstance(call.error, InputError)
    assert "shorten the question" in str(call.error)
    assert not bench.llm.commands
    bench.assert_idle()
