"""A loop's earlier text goes to the engine as a draft of the next one, and is counted."""

import pytest

from heddle.core.payloads import DecodePayload
from heddle.core.results import FinishReason, Generated, RemoteRun
from heddle.core.tasks import Caller, Optimizations
from heddle.passes.runner import PassRunner
from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.fake_ports import Bench, ManualClock


def looping(turns=3):
    graph = RAGraph("loop").add_generation("write", "Write {query}, not {draft}.", "draft")
    edge = lambda state: END if state["turn"] == turns else "write"  # noqa: E731
    return graph.add_edge(START, "write").add_edge("write", edge).compile()


def texts(*token_ids, **more):
    return [Generated(str(ids), ids, FinishReason.STOP, **more) for ids in token_ids]


def drafts_of(bench):
    tasks = [t.payload for t in bench.llm.tasks() if isinstance(t.payload, DecodePayload)]
    return [payload.draft for payload in tasks]


def test_each_turn_has_the_text_of_the_turn_before(bench):
    bench.llm.texts["write"] = texts((5, 6), (7,), (8, 9))
    call = bench.submit(looping())
    assert drafts_of(bench) == [(), (5, 6), (7,)]
    assert "draft_answers" in call.answer.receipt.passes
    bench.assert_idle()


def test_the_receipt_counts_drafted_tokens(bench):
    bench.llm.texts["write"] = texts((5, 6), (7,), (8, 9), drafted=4, accepted=3)
    receipt = bench.submit(looping()).answer.receipt
    assert (receipt.drafted_tokens, receipt.accepted_tokens) == (12, 9)


def test_the_text_of_another_server_is_no_draft(bench):
    remote = RemoteRun(server="there", model="theirs")
    bench.llm.texts["write"] = texts((5, 6), (7,), (8, 9), remote=remote)
    receipt = bench.submit(looping()).answer.receipt
    assert drafts_of(bench) == [(), (), ()]
    assert receipt.drafted_tokens == 0


@pytest.mark.parametrize("how", ["off", "disabled"])
def test_it_can_be_left_out(how):
    runner = PassRunner(ManualClock(), disabled=frozenset({"draft_answers"}))
    bench = Bench(runner=runner if how == "disabled" else None)
    bench.llm.texts["write"] = texts((5, 6), (7,), (8, 9))
    mode = Optimizations.OFF if how == "off" else Optimizations.EXACT
    bench.submit(looping(), optimizations=mode)
    assert drafts_of(bench) == [(), (), ()]


def test_a_node_of_another_program_has_its_own_newest_text_of_the_run():
    bench = Bench()
    bench.llm.texts["write"] = texts((5, 6), (7,), (8, 9), (4,), (3,))
    graph = RAGraph("once").add_generation("write", "Write {query}.", "draft").compile()
    answer, other = Caller("run-1", "answer"), Caller("run-2", "answer")
    for caller in (answer, Caller("run-1", "judge"), answer, other):
        bench.submit(graph, caller=caller)
    assert drafts_of(bench) == [(), (), (5, 6), ()]
    bench.submit(graph, caller=answer, optimizations=Optimizations.OFF)
    assert drafts_of(bench)[-1] == ()
    bench.assert_idle()


def test_drafts_of_runs_go_with_their_pass():
    bench = Bench(runner=PassRunner(ManualClock(), disabled=frozenset({"draft_answers"})))
    bench.llm.texts["write"] = texts((5, 6), (7,))
    graph = RAGraph("once").add_generation("write", "Write {query}.", "draft").compile()
    for _ in range(2):
        bench.submit(graph, caller=Caller("run-1", "answer"))
    assert drafts_of(bench) == [(), ()]
