"""A generation that retrieves while it decodes: its rounds, its prompts, its bounds, its ends."""

import pytest

from heddle.core.errors import Cancelled
from heddle.core.frames import Done, Failed, Progress
from heddle.core.payloads import (
    NO_PAUSE,
    DecodePayload,
    EmbedPayload,
    Pause,
    PrefillPayload,
    SegmentRole,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, Generated, KvHandle, Prefilled
from heddle.core.tasks import Optimizations
from heddle.runtime.events import NodeFinished, NodeStarted, Retrieved, TokenDelta
from heddle.runtime.rounds import last_sentence
from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.fake_ports import Bench

PROMPT = "Read {docs}and say {query}"
ROUNDS = (
    Generated("One. Two", (11, 12), FinishReason.INTERVAL, tokens_left=900),
    Generated("One. Two three", (11, 12, 13), FinishReason.LOW_CONFIDENCE, tokens_left=900),
    Generated("One. Two three.", (11, 12, 13, 14), FinishReason.STOP),
)


def rounds_graph(name="answer", graph=None, **options):
    if graph is None:
        graph = RAGraph("rounds").add_retrieval("find", topk=2, nprobe=3, topm=40)
    return graph.add_generation(name, PROMPT, name, **{"retrieve_every": 2, **options})


@pytest.fixture
def workflow():
    return rounds_graph(query="{sentence}").compile()


@pytest.fixture
def llm(bench):
    bench.llm.texts = {"answer": list(ROUNDS)}
    return bench.llm


def payloads(port, kind):
    return [task.payload for task in port.tasks() if isinstance(task.payload, kind)]


def shown_text(payload):
    """Return what FakeTokenizer made of a prompt, without its frame."""
    return "".join(chr(t) for s in payload.segments[1:] for t in s.token_ids if t > 20)


def test_one_streamed_slot_out_of_three_rounds(bench, llm, workflow):
    call = bench.submit(workflow)
    assert call.answer.text == call.answer.slots["answer"] == "One. Two three."
    of_answer = [event for event in call.events if getattr(event, "node", "") == "answer"]
    assert "".join(e.text for e in of_answer if isinstance(e, TokenDelta)) == "One. Two three."
    assert sum(isinstance(event, NodeStarted) for event in of_answer) == 1
    assert sum(isinstance(event, NodeFinished) for event in of_answer) == 1
    assert sum(isinstance(event, Retrieved) for event in of_answer) == 2
    bench.assert_idle()


def test_a_prompt_goes_on_with_the_tokens_themselves(bench, llm, workflow):
    bench.submit(workflow)
    first, second, third = payloads(llm, PrefillPayload)
    assert first.segments[-1].token_ids == (2,)  # the template's tail
    assert second.segments[-2].token_ids == (2,)
    assert second.segments[-1].token_ids == (11, 12)
    assert second.segments[-1].role is SegmentRole.TEXT
    assert third.segments[-1].token_ids == (11, 12, 13)
    # The question is "why": 3 characters find chunks 3 and 4; "Two" the same, "Two three" 9, 10.
    assert shown_text(second) == shown_text(first)
    assert "Read " in shown_text(third)
    assert shown_text(third).index("t4") < shown_text(third).index("t9")
    assert shown_text(third).index("t10") < shown_text(third).index("and say why")
    continues = [payload.continues for payload in payloads(llm, DecodePayload)]
    assert continues == [0, 2, 3]


def test_what_is_searched_for(bench, llm, workflow):
    bench.submit(workflow)
    assert [p.texts for p in payloads(bench.embedding, EmbedPayload)] == [
        ("why",),
        ("Two",),
        ("Two three",),
    ]
    searches = [task.payload for task in bench.vector.tasks()]
    assert {(p.topk, p.nprobe, p.topm) for p in searches} == {(2, 3, 40)}


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        (None, ("why Two", "why Two three")),
        ("answer", ("One. Two", "One. Two three")),
        ("So far: {answer} {{}}", ("So far: One. Two {}", "So far: One. Two three {}")),
    ],
)
def test_queries_of_ones_own(bench, llm, query, texts):
    bench.submit(rounds_graph(query=query).compile())
    assert [p.texts[0] for p in payloads(bench.embedding, EmbedPayload)][1:] == list(texts)


def test_passages_that_are_there_are_not_added_again(bench, llm, workflow):
    answer = bench.submit(workflow).answer
    assert [p.chunk_id for p in answer.passages] == [3, 4, 9, 10]
    first, second = answer.receipt.splices
    assert (first.chunks_found, first.chunks_added, first.chunks_dropped) == (2, 0, 0)
    assert (second.chunks_found, second.chunks_added, second.chunks_dropped) == (2, 2, 0)


def test_the_receipt_tells_when_and_what_it_cost(bench, llm, workflow):
    def prefilled(task):
        if not isinstance(task.payload, PrefillPayload):
            return None
        bench.clock.time_s += 1.0
        return (*llm_done(llm, task),)

    llm.on_admit = prefilled
    receipt = bench.submit(workflow).answer.receipt
    assert receipt.generated_tokens == 4
    first, second = receipt.splices
    assert (first.node, first.turn, first.at_token, first.reason) == (
        "answer",
        0,
        2,
        FinishReason.INTERVAL,
    )
    assert (second.at_token, second.reason) == (3, FinishReason.LOW_CONFIDENCE)
    assert 0 < first.at_s < second.at_s
    assert (first.tokens_computed, first.tokens_reused) == (6, 4)


def llm_done(port, task):
    return (Done(task.task_id, Prefilled(KvHandle(port.name, port.epoch, task.task_id), 10, 4)),)


def test_the_last_round_doesn_t_pause(bench, llm):
    pause = Pause(after=2)
    bench.submit(rounds_graph(retrievals_max=2).compile())
    assert [p.pause for p in payloads(llm, DecodePayload)] == [pause, pause, NO_PAUSE]


def test_confidence_is_the_engines_to_watch(bench, llm):
    bench.submit(rounds_graph(retrieve_every=None, retrieve_below=0.25).compile())
    assert payloads(llm, DecodePayload)[0].pause == Pause(below=0.25)


def growing(texts, tokens_left=900):
    """Return rounds that end with these texts, a token each more."""
    rounds = [
        Generated(text, tuple(range(11, 12 + i)), FinishReason.INTERVAL, tokens_left=tokens_left)
        for i, text in enumerate(texts)
    ]
    return [*rounds, Generated("end", (1,) * 9, FinishReason.LENGTH)]


def chunks_added(bench, rounds, **options):
    """Return the chunks that each later prompt shows beside the first ones, and the splices."""
    bench.llm.texts = {"answer": rounds}
    answer = bench.submit(rounds_graph(query="answer", **options).compile()).answer
    found = []
    for payload in payloads(bench.llm, PrefillPayload)[1:]:
        text = shown_text(payload)
        ids = [int(word.split("'")[0]) for word in text.split("title='t")[1:]]
        found.append([i for i in ids if i not in (3, 4)])
    return found, answer.receipt.splices


def test_the_oldest_added_passages_go_first(bench):
    texts = ("a" * 20, "a" * 30, "a" * 40)
    found, splices = chunks_added(bench, growing(texts), added_max=3)
    assert found == [[20, 21], [21, 30, 31], [31, 40, 41]]
    assert [s.chunks_dropped for s in splices] == [0, 1, 2]
    assert [s.chunks_added for s in splices] == [2, 2, 2]


def test_what_an_earlier_round_has_added_is_not_added_again(bench):
    found, splices = chunks_added(bench, growing(("a" * 20, "a" * 21)))
    assert found == [[20, 21], [20, 21, 22]]
    assert [s.chunks_added for s in splices] == [2, 1]
    assert [s.chunks_dropped for s in splices] == [0, 0]


def test_the_farthest_of_too_many_new_ones_goes(bench):
    found, splices = chunks_added(bench, growing(("a" * 20,)), added_max=1)
    assert found == [[20]]
    assert (splices[0].chunks_added, splices[0].chunks_dropped) == (1, 1)


def passage_tokens(bench):
    (passage,) = bench.runtime.passages.passages([20])
    return len(str(passage))


@pytest.mark.parametrize(("room", "kept"), [(0, []), (1, [20]), (2, [20, 21])])
def test_what_is_added_leaves_room_for_the_rest_of_the_answer(bench, room, kept):
    tokens_left = room * passage_tokens(bench) + 63  # of max_tokens=64 one is written
    found, splices = chunks_added(bench, growing(("a" * 20,), tokens_left))
    assert found == [kept]
    assert splices[0].chunks_dropped == 2 - len(kept)
    found, _ = chunks_added(Bench(), growing(("a" * 20,), tokens_left - 1))
    assert found == [kept[:-1]]


def test_passages_make_room_where_the_context_is_full(bench):
    rounds = growing(("a" * 20, "a" * 30))
    rounds[1] = Generated("a" * 30, (11, 12), FinishReason.INTERVAL, tokens_left=62)
    found, splices = chunks_added(bench, rounds)
    assert found == [[20, 21], [30, 31]]
    assert splices[1].chunks_dropped == 2


def test_what_comes_after_waits_for_the_whole_text(bench):
    bench.llm.texts = {"answer": list(ROUNDS), "judge": ["fine"]}
    noted = []
    graph = rounds_graph()
    graph.add_tool(
        "note", lambda query: noted.append(bench.llm.shown.get("answer")), ["query"], "x"
    )
    graph.add_generation("judge", "Judge {answer}")
    graph.add_edge(START, "find").add_edge("find", "answer").add_edge("answer", "note")
    graph.add_edge("note", END).add_edge("judge", END)
    for level in ("off", "exact"):
        bench.llm.texts["answer"] = list(ROUNDS)
        answer = bench.submit(graph.compile(), optimizations=Optimizations(level)).answer
        assert answer.text == "fine"
        prompts = payloads(bench.llm, PrefillPayload)
        assert shown_text(prompts[-1]).endswith("Judge One. Two three.")
    assert noted == ["One. Two three."] * 2
    bench.assert_idle()


def test_two_generations_in_rounds_side_by_side(bench):
    graph = rounds_graph("left", rounds_graph("right"))
    graph.add_generation("join", "Join {left} and {right}")
    bench.llm.texts = {"left": list(ROUNDS), "right": list(ROUNDS[:1]) + list(ROUNDS[2:])}
    answer = bench.submit(graph.compile()).answer
    assert answer.slots["left"] == answer.slots["right"] == "One. Two three."
    assert sorted((s.node, s.at_token) for s in answer.receipt.splices) == [
        ("left", 2),
        ("left", 3),
        ("right", 2),
    ]
    bench.assert_idle()


def test_every_turn_of_a_loop_has_rounds_of_its_own(bench, llm):
    graph = rounds_graph()
    graph.add_edge(START, "find").add_edge("find", "answer")
    graph.add_edge("answer", lambda state: END if state["turn"] == 2 else "find", targets=["find"])
    llm.texts = {"answer": [*ROUNDS, *ROUNDS]}
    receipt = bench.submit(graph.compile()).answer.receipt
    assert [(s.turn, s.at_token) for s in receipt.splices] == [(0, 2), (0, 3), (1, 2), (1, 3)]
    bench.assert_idle()


def test_a_list_is_taken_from_the_whole_text(bench, llm):
    llm.texts = {
        "answer": [
            Generated("one\nt", (11,), FinishReason.INTERVAL, tokens_left=900),
            Generated("one\ntwo\n", (11, 12), FinishReason.STOP),
        ]
    }
    answer = bench.submit(rounds_graph(parse="lines").compile()).answer
    assert answer.slots["answer"] == ("one", "two")


def tasks_sent(bench):
    return sum(len(port.tasks()) for port in bench.ports)


@pytest.mark.parametrize("held", range(12))
def test_a_cancelled_request_holds_nothing_whatever_it_waited_for(bench, llm, workflow, held):
    """The n-th task is never answered, and the caller gives up."""
    for port in bench.ports:
        port.holds = lambda task: tasks_sent(bench) > held
    call = bench.submit(workflow)
    assert not call.ends
    bench.cancel(call)
    assert isinstance(call.error, Cancelled)
    bench.assert_idle()


def test_a_search_of_a_round_is_tried_again(bench, llm, workflow):
    failed = []

    def fail_once(task):
        if len(bench.vector.tasks()) == 2 and not failed:
            failed.append(task)
            return (Failed(task.task_id, "it broke"),)
        return None

    bench.vector.on_admit = fail_once
    receipt = bench.submit(workflow).answer.receipt
    assert receipt.retries == 1
    assert len(receipt.splices) == 2
    bench.assert_idle()


@pytest.mark.parametrize("has_spoken", [False, True])
def test_a_failed_round_is_decoded_again_behind_what_was_heard(bench, llm, workflow, has_spoken):
    failed = []

    def fail_once(task):
        if task.kind is not PrimitiveKind.DECODING or not task.payload.continues or failed:
            return None
        failed.append(task)
        said = (Progress(task.task_id, (13,), " three"),) if has_spoken else ()
        return (*said, Failed(task.task_id, "it broke"))

    llm.on_admit = fail_once
    call = bench.submit(workflow)
    assert call.answer.text == "One. Two three."
    again = 3 if has_spoken else 2
    assert [p.continues for p in payloads(llm, DecodePayload)] == [0, 2, again, 3]
    bench.assert_idle()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", ""),
        ("The keeper is", "The keeper is"),
        ("It is old. The keeper is", "The keeper is"),
        ("It is old. The keeper is Ada.", "The keeper is Ada."),
        ("It is old. Is it? ", "Is it?"),
        ("A list:\n- one\n- tw", "- tw"),
        ("It is 3.5 m", "It is 3.5 m"),
        ("很旧。守门人是", "守门人是"),
        (" \n ", ""),
    ],
)
def test_the_last_sentence(text, sentence):
    assert last_sentence(text) == sentence
