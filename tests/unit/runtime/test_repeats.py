"""A prompt that comes again in a loop isn't computed again, and the text is the same."""

import pytest

from heddle.core.payloads import DecodePayload, PrefillPayload
from heddle.core.results import FinishReason, Generated, RemoteRun
from heddle.core.tasks import Optimizations
from heddle.passes.runner import PassRunner
from heddle.runtime.events import NodeFinished, NodeStarted, TokenDelta
from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.fake_ports import Bench, ManualClock


def looping(prompt="Write {query}.", turns=2, **sampling):
    graph = RAGraph("loop").add_generation("write", prompt, "draft", **sampling)
    edge = lambda state: END if state["turn"] == turns else "write"  # noqa: E731
    return graph.add_edge(START, "write").add_edge("write", edge).compile()


def prompts_of(bench):
    return [t for t in bench.llm.tasks() if isinstance(t.payload, PrefillPayload)]


def decodes_of(bench):
    return [t for t in bench.llm.tasks() if isinstance(t.payload, DecodePayload)]


def test_the_same_prompt_is_sent_once(bench):
    call = bench.submit(looping(turns=3))
    assert call.answer.text == "hello"
    assert call.answer.receipt.repeated == 2
    assert call.answer.receipt.generated_tokens == 2  # of the one that was written
    assert "skip_repeats" in call.answer.receipt.passes
    assert len(prompts_of(bench)) == len(decodes_of(bench)) == 1
    bench.assert_idle()


def test_callers_hear_of_every_turn(bench):
    call = bench.submit(looping())
    second = call.events.index(NodeStarted("write", 1))
    told = NodeStarted | NodeFinished | TokenDelta
    assert [e for e in call.events[second:] if isinstance(e, told)] == [
        NodeStarted("write", 1),
        TokenDelta("write", "hello"),
        NodeFinished("write", 1),
    ]


def test_another_prompt_is_sent(bench):
    bench.llm.texts["write"] = ["one", "two", "two"]
    call = bench.submit(looping("Write {query}, not {draft}.", turns=4))
    # The third and the fourth prompt both show what the second and the third wrote.
    assert call.answer.receipt.repeated == 1
    assert len(prompts_of(bench)) == 3


def test_only_the_newest_text_is_kept(bench):
    bench.llm.texts["write"] = ["one", "two", "one", "two"]
    assert bench.submit(looping("{draft}?", turns=4)).answer.receipt.repeated == 0


def test_the_text_of_another_server_is_asked_for_again(bench):
    remote = RemoteRun(server="there", model="theirs")
    bench.llm.texts["write"] = [Generated("hi", (1,), FinishReason.STOP, remote=remote)]
    assert bench.submit(looping()).answer.receipt.repeated == 0
    assert len(prompts_of(bench)) == 2


@pytest.mark.parametrize("how", ["off", "disabled"])
def test_it_can_be_left_out(how):
    runner = PassRunner(ManualClock(), disabled=frozenset({"skip_repeats"}))
    bench = Bench(runner=runner if how == "disabled" else None)
    mode = Optimizations.OFF if how == "off" else Optimizations.EXACT
    call = bench.submit(looping(), optimizations=mode)
    assert call.answer.receipt.repeated == 0
    assert len(prompts_of(bench)) == 2


def test_a_list_is_taken_again_as_lines(bench):
    bench.llm.texts["write"] = ["one\ntwo"]
    graph = RAGraph("lines").add_generation("write", "List {query}.", "items", parse="lines")
    graph.add_edge(START, "write")
    graph.add_edge("write", lambda state: END if state["turn"] == 2 else "write")
    call = bench.submit(graph.compile())
    assert call.answer.receipt.repeated == 1
    assert call.answer.text == "one\ntwo"
