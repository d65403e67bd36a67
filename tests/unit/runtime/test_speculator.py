"""Prompts are computed while their search runs, delay no other request, and change no answer."""

import numpy as np
import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Frame, Progress
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import DecodePayload, PrefillPayload
from heddle.core.results import FinishReason, Generated
from heddle.core.tasks import Optimizations
from heddle.passes.runner import PassRunner
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import per_invocation
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.events import TokenDelta
from heddle.workflow.ragraph import RAGraph
from tests.helpers.degraded import reasons
from tests.helpers.fake_ports import LLM, FakePort, ManualClock, hits_of
from tests.helpers.running_searches import RunningSearches

COSTS = CostSnapshot("llm", 1, {"call": 0.01, "prefill_tokens": 1e-3})


def is_guess(task):
    return isinstance(task.payload, PrefillPayload) and task.payload.is_speculative


class Searching(RunningSearches):
    """A bench whose searches run on until the test ends them; guesses, too, where `held`."""

    def __init__(self, *, held=False, **options):
        writes = options.pop("writes", False)
        disabled = frozenset() if writes else frozenset({"speculate_generation"})
        runner = PassRunner(ManualClock(), disabled=disabled)
        super().__init__(**{"runner": runner, **options})
        self.llm.holds = is_guess if held else (lambda task: False)
        self.llm.costs = COSTS
        self.llm.post()  # so the runtime knows what its steps cost

    def guesses(self):
        return [task for task in self.llm.tasks() if is_guess(task)]


def prompts(bench):
    payloads = (t.payload for t in bench.llm.tasks() if isinstance(t.payload, PrefillPayload))
    return [p for p in payloads if not p.is_speculative]


def test_the_prompt_is_computed_while_the_search_runs(oneshot):
    bench = Searching()
    call = bench.submit(oneshot, tenant="a")
    assert [a.report_every for a in bench.vector.sent(Admit)] == [1]
    bench.look()
    (guess,) = bench.guesses()
    assert bench.vector.open, "the search is not over"
    assert bench.llm.credits.used == 0
    bench.clock.time_s += 0.5
    answer = bench.ended(call)
    (prompt,) = prompts(bench)
    assert guess.payload.segments == prompt.segments
    assert (guess.payload.cache_salt, guess.payload.rows) == ("a", 0)
    (told,) = answer.receipt.speculations
    assert (told.node, told.turn, told.probability, told.is_adopted) == ("answer", 0, 0.9, True)
    assert told.ahead_s == 0.5
    assert told.gain_s > 0
    assert answer.text == "hello"
    assert bench.llm.sent(Cancel) == []
    # The receipt counts the prompt once, without the guesses before it.
    assert answer.receipt.prompt_tokens == 10
    assert len([s for s in answer.receipt.spans if s.name == "answer.prefilling@0"]) == 1


@pytest.mark.parametrize("lane", ["one", "two"])
def test_a_guess_on_another_lane_than_its_prompt_has_lost(oneshot, lane):
    bench = Searching()
    sent = bench.llm.sent
    bench.llm.lane_of = lambda task_id: "one" if is_guess(sent(Admit)[-1].task) else lane
    call = bench.submit(oneshot)
    bench.look()
    (guess,) = bench.guesses()
    (told,) = bench.ended(call).receipt.speculations
    computed = len(guess.payload.token_ids) - 4  # the fake engine says that it reused as many
    expected = (True, 0) if lane == "one" else (False, computed)
    assert (told.is_adopted, told.tokens_wasted) == expected


def test_searches_are_not_looked_at_while_no_guess_would_pay(oneshot):
    bench = Searching()
    bench.ended(bench.submit(oneshot))
    use = bench.runtime.lanes["llm"].use
    for _ in range(9):
        use.enter(bench.clock.time_s)
    use.work(100.0, bench.clock.time_s + 100.0)
    bench.clock.time_s += 100.0
    bench.submit(oneshot)
    bench.look()
    assert [admit.report_every for admit in bench.vector.sent(Admit)] == [1, 0]
    assert len(bench.guesses()) == 0


def test_passages_that_were_not_the_last_are_rolled_back(oneshot):
    bench = Searching()
    call = bench.submit(oneshot)
    bench.look(worse=5)
    answer = bench.ended(call)
    assert [told.is_adopted for told in answer.receipt.speculations] == [False]
    assert not any("t8" in passage.title for passage in answer.passages)
    assert answer.receipt.degradations == ()


def test_one_that_still_runs_is_cancelled_when_its_prompt_is_sent(oneshot):
    bench = Searching(held=True)
    call = bench.submit(oneshot)
    bench.look()
    assert bench.ended(call).receipt.speculations[0].is_adopted
    sent = [
        "cancel" if isinstance(command, Cancel) else command.task.kind.value
        for command in bench.llm.commands
        if isinstance(command, Admit | Cancel)
    ]
    assert sent == ["prefilling", "cancel", "prefilling", "decoding"]


def test_another_look_sends_nothing_twice_and_takes_back_what_is_wrong(oneshot):
    bench = Searching(held=True)
    call = bench.submit(oneshot)
    bench.look(worse=5)
    bench.look(worse=5, fraction=0.6)
    assert len(bench.guesses()) == 1
    bench.look(fraction=0.7)  # this cycle the lane is still busy with the wrong one
    assert len(bench.llm.sent(Cancel)) == 1
    bench.look(fraction=0.8)
    assert len(bench.guesses()) == 2
    answer = bench.ended(call)
    assert [told.is_adopted for told in answer.receipt.speculations] == [False, True]


@pytest.mark.parametrize(
    "look",
    [
        {"probability": 0.0},
        {"probability": 0.05},
        {"fraction": 0.0},
        {"fraction": 1.0},
        {"after_s": 0.0},
    ],
)
def test_nothing_is_sent_where_there_is_nothing_to_gain(oneshot, look):
    bench = Searching()
    call = bench.submit(oneshot)
    bench.look(**look)
    assert bench.guesses() == []
    assert bench.ended(call).receipt.speculations == ()


@pytest.mark.parametrize(
    "options",
    [
        {"optimizations": Optimizations.OFF},
        {"optimizations": Optimizations.APPROX, "kv_reuse": KvReuse(ReusePolicy.EPIC, 0.1)},
    ],
    ids=["off", "fused"],
)
def test_only_prompts_that_full_attention_computes(oneshot, options):
    bench = Searching()
    call = bench.submit(oneshot, **options)
    assert [a.report_every for a in bench.vector.sent(Admit)] == [0]
    bench.look()
    assert bench.guesses() == []
    bench.ended(call)


@pytest.mark.parametrize(
    ("busy_max", "worked_s", "guesses"), [(0.6, 0.1, 1), (0.6, 2.0, 0), (None, 0.0, 0)]
)
def test_none_for_an_engine_that_works_more_than_it_may(oneshot, busy_max, worked_s, guesses):
    bench = Searching()
    lane = bench.runtime.lanes["llm"]
    lane.busy_max = busy_max
    bench.submit(oneshot)
    lane.use.work(worked_s, bench.clock.time_s)
    bench.look()
    assert len(bench.guesses()) == guesses


def test_a_server_that_does_not_speculate_asks_for_no_partial_hits(bench, oneshot):
    assert bench.submit(oneshot).answer.text == "hello"
    assert [a.report_every for a in bench.vector.sent(Admit)] == [0]


@pytest.mark.parametrize("credits", [64, 1], ids=["at_once", "row_by_row"])
def test_searches_of_several_rows_or_by_words_are_waited_for(credits):
    bench = Searching(vector=credits)
    graph = RAGraph("words").add_retrieval("find", topk=2, hybrid=True)
    words = graph.add_generation("answer", "From {docs}.").compile()
    calls = [bench.submit(words)]
    graph = RAGraph("rows").add_generation("plan", "Plan {query}", "parts", parse="lines")
    graph.add_retrieval("find", query="parts", topk=2)
    bench.llm.texts["plan"] = ["one\ntwo"]
    calls.append(bench.submit(graph.add_generation("answer", "From {docs}.").compile()))
    while bench.vector.open:
        bench.vector.answer_all()
        bench.cycle()
    assert not any(a.report_every for a in bench.vector.sent(Admit))
    assert all(call.answer.text == "hello" for call in calls)


def test_the_pass_can_be_left_out_by_its_name(oneshot):
    bench = Searching(runner=PassRunner(ManualClock(), disabled=frozenset({"speculate_prefill"})))
    call = bench.submit(oneshot)
    bench.look()
    assert bench.guesses() == []
    bench.ended(call)


def test_a_prompt_that_waits_for_more_than_one_search_is_not_guessed():
    graph = RAGraph("two")
    for side in ("left", "right"):
        graph.add_retrieval(side, query=f"{{query}} {side}", output=f"docs_{side}", topk=2)
    graph.add_generation("answer", "Join {docs_left} and {docs_right}")
    bench = Searching()
    call = bench.submit(graph.compile())
    bench.look()
    assert bench.guesses() == []
    bench.vector.answer(next(iter(bench.vector.open)))
    bench.cycle()
    bench.look()
    assert len(bench.guesses()) == 1, "the other's passages are known by now"
    assert bench.ended(call).receipt.speculations[0].is_adopted


def test_of_two_looks_at_once_the_newer_counts(oneshot):
    bench = Searching()
    call = bench.submit(oneshot)
    ((task_id, task),) = bench.vector.open.items()
    hits = hits_of(task.payload)
    bench.clock.time_s += 1.0
    for worse, fraction in ((5, 0.2), (0, 0.9)):  # the older one has more to gain
        partial = Progress(task_id, (), "", hits.labels + worse, hits.distances, fraction, 0.9)
        bench.vector.deliver(Frame("vector", 1, 0.001, (partial,)))
    bench.cycle()
    assert len(bench.guesses()) == 1
    assert bench.ended(call).receipt.speculations[0].is_adopted


def test_one_guess_at_a_time(oneshot):
    bench = Searching(held=True)
    calls = [bench.submit(oneshot, {"query": text}) for text in ("why", "where", "when")]
    bench.look()
    bench.look(fraction=0.6)
    assert len(bench.guesses()) == 1
    bench.llm.answer(bench.guesses()[0].task_id)
    bench.cycle()
    bench.look(fraction=0.7)
    assert len(bench.guesses()) == 2
    bench.vector.answer_all()
    bench.cycle()
    assert [len(call.answer.receipt.speculations) for call in calls].count(1) == 2
    bench.assert_idle()


def test_a_prompt_is_made_once_for_the_same_hits(oneshot, monkeypatch):
    made = []
    guess = Dispatcher.guess
    monkeypatch.setattr(Dispatcher, "guess", lambda *args: made.append(1) or guess(*args))
    bench = Searching(held=True)
    calls = [bench.submit(oneshot, {"query": text}) for text in ("why", "where")]
    bench.look()
    assert (len(made), len(bench.guesses())) == (2, 1), "which of them gains more"
    for fraction in (0.6, 0.7, 0.8):
        bench.look(fraction=fraction)
    assert len(made) == 2
    bench.look(fraction=0.9, worse=5)  # other hits: the guess is taken back
    assert (len(made), len(bench.llm.sent(Cancel))) == (4, 1)
    bench.ended(calls[0])


def test_no_prompt_is_made_whose_engine_is_busy_until_the_search_ends(oneshot, monkeypatch):
    made = []
    guess = Dispatcher.guess
    monkeypatch.setattr(Dispatcher, "guess", lambda *args: made.append(1) or guess(*args))
    bench = Searching()
    bench.llm.holds = lambda task: True
    first = bench.submit(oneshot, {"query": "why" * 30})  # its prompt takes the engine a while
    bench.vector.answer_all()
    bench.cycle()
    second = bench.submit(oneshot)
    bench.look(after_s=0.1, fraction=0.7)
    assert (made, bench.guesses()) == ([], [])
    bench.look(after_s=0.1, fraction=0.1)  # now the search is the longer one
    assert made == [1]
    bench.llm.answer_all()
    bench.cycle()
    assert len(bench.guesses()) == 1, "it waits for the engine, not for another look"
    bench.llm.holds = lambda task: False
    bench.llm.answer_all()
    bench.ended(second)
    assert first.answer.text == "hello"


def test_a_node_whose_guesses_lose_is_not_guessed_until_a_while_has_passed(oneshot):
    bench = Searching()
    for _ in range(30):
        call = bench.submit(oneshot)
        bench.look(worse=5)
        bench.ended(call)
    lost = len(bench.guesses())
    assert 4 < lost < 30
    bench.clock.time_s += 600.0
    call = bench.submit(oneshot)
    bench.look()
    assert bench.ended(call).receipt.speculations[0].is_adopted
    assert len(bench.guesses()) == lost + 1


def test_an_engine_that_became_idle_in_the_same_cycle_is_idle(oneshot):
    bench = Searching(held=True)
    calls = [bench.submit(oneshot, {"query": text}) for text in ("why", "where")]
    bench.look()
    (first,) = bench.guesses()
    bench.llm.answer(first.task_id)  # the vector engine's frame is read before this one
    bench.look(fraction=0.6)
    assert len(bench.guesses()) == 2
    bench.ended(calls[0])


def test_a_prompt_that_breaks_while_it_is_made_ends_its_request_only(oneshot, monkeypatch):
    bench = Searching()
    calls = [bench.submit(oneshot, {"query": text}) for text in ("why", "where")]
    guess = Dispatcher.guess

    def broken(self, request, prefill, store):
        assert request.id != calls[0].id, "a bug"
        return guess(self, request, prefill, store)

    monkeypatch.setattr(Dispatcher, "guess", broken)
    bench.look()
    assert "a bug" in str(calls[0].error)
    assert bench.ended(calls[1]).text == "hello"


@pytest.mark.parametrize("why", ["another engine", "restarted"])
def test_what_was_computed_elsewhere_is_not_adopted(oneshot, why):
    more = FakePort("more", LLM)
    bench = Searching(more=[more])
    call = bench.submit(oneshot)
    bench.look()
    assert len(bench.guesses()) == 1
    if why == "restarted":
        bench.llm.lose_lane()
    else:
        bench.llm.credits.take(bench.llm.credits.total)  # so its prompt goes to the other one
    bench.vector.answer_all()
    bench.cycle()
    if why != "restarted":
        bench.llm.credits.give_back(bench.llm.credits.total)
    assert [told.is_adopted for told in call.answer.receipt.speculations] == [False]
    assert len([t for t in more.tasks() if isinstance(t.payload, PrefillPayload)]) == (
        why == "another engine"
    )


def test_a_guess_keeps_nobody_waiting_who_wants_the_engine_to_himself(oneshot, draft):
    bench = Searching(held=True, policy=per_invocation)
    call = bench.submit(oneshot)
    bench.look()
    assert len(bench.guesses()) == 1
    assert bench.submit(draft).answer.text == "hello"
    assert bench.ended(call).text == "hello"


def test_one_that_fails_costs_a_line_in_the_receipt(oneshot):
    bench = Searching(held=True)
    call = bench.submit(oneshot)
    bench.look()
    bench.llm.fail(bench.guesses()[0].task_id)
    bench.cycle()
    answer = bench.ended(call)
    assert answer.text == "hello"
    assert reasons(answer.receipt) == ["answer.prefilling@0 was not computed ahead: it broke"]
    assert not answer.receipt.speculations[0].is_adopted
    assert answer.receipt.retries == 0


def test_a_lane_that_dies_meanwhile_costs_nothing_else(oneshot):
    bench = Searching(held=True)
    call = bench.submit(oneshot)
    bench.look()
    bench.llm.lose_lane()
    bench.cycle()
    assert bench.ended(call).text == "hello"


def test_a_request_that_is_cancelled_takes_its_guess_back(oneshot):
    bench = Searching(held=True)
    call = bench.submit(oneshot)
    bench.look()
    bench.cancel(call)
    assert len(bench.llm.sent(Cancel)) == 1
    bench.assert_idle()


def test_a_search_that_is_tried_again_keeps_the_guess(oneshot):
    bench = Searching(held=True)
    call = bench.submit(oneshot)
    bench.look()
    bench.vector.fail(next(iter(bench.vector.open)))
    bench.cycle()
    bench.look()
    assert len(bench.guesses()) == 1
    answer = bench.ended(call)
    assert answer.receipt.retries == 1
    assert answer.receipt.speculations[0].is_adopted


def test_a_search_that_fails_takes_the_guess_back(oneshot):
    bench = Searching(held=True, limits=RuntimeLimits(retries_max=0))
    call = bench.submit(oneshot)
    bench.look()
    bench.vector.fail(next(iter(bench.vector.open)))
    bench.cycle()
    assert "it broke" in str(call.error)
    bench.assert_idle()


def test_partial_hits_that_come_with_the_last_ones_are_too_late(oneshot):
    bench = Searching()
    call = bench.submit(oneshot)
    bench.clock.time_s += 1.0
    ((task_id, task),) = bench.vector.open.items()
    hits = hits_of(task.payload)
    partial = Progress(task_id, (), "", hits.labels, hits.distances, 0.5, 0.9)
    bench.vector.on_admit = lambda task: None
    bench.vector.lose_frames()
    bench.vector.post(partial)
    assert bench.ended(call).receipt.speculations == ()


def test_hits_that_nobody_may_see_stay_out_of_the_prompt(oneshot):
    bench = Searching()
    call = bench.submit(oneshot)
    clock_s, task_id = bench.clock.time_s + 1.0, next(iter(bench.vector.open))
    bench.clock.time_s = clock_s
    none = np.full((1, 2), -1)
    far = np.full((1, 2), np.inf, np.float32)
    bench.vector.post(Progress(task_id, (), "", none, far, 0.5, 0.9))
    bench.cycle()
    assert bench.ended(call).text == "hello"


# -- text written ahead ---------------------------------------------------------------------------


def is_ahead(task):
    """Whether a task is a guess, or a decode, such as one behind a guess."""
    return is_guess(task) or isinstance(task.payload, DecodePayload)


def deltas(call):
    return "".join(event.text for event in call.events if isinstance(event, TokenDelta))


def decodes(bench):
    return [task for task in bench.llm.tasks() if isinstance(task.payload, DecodePayload)]


def test_a_whole_text_that_was_written_ahead_needs_no_engine_and_is_shown_at_the_end(oneshot):
    bench = Searching(writes=True)
    call = bench.submit(oneshot)
    bench.look()
    assert deltas(call) == "", "the passages are not final"
    answer = bench.ended(call)
    assert prompts(bench) == []
    assert (answer.text, deltas(call)) == ("hello", "hello")
    (told,) = answer.receipt.speculations
    assert (told.is_adopted, told.tokens_written, told.tokens_wasted) == (True, 2, 0)
    receipt = answer.receipt
    assert (receipt.prompt_tokens, receipt.prompt_tokens_reused) == (10, 4)
    assert (receipt.generated_tokens, receipt.repeated) == (2, 0)
    assert {"answer.prefilling@0", "answer.decoding@0"} <= {s.name for s in receipt.spans}


def test_a_text_written_behind_other_passages_is_dropped_unseen(oneshot):
    bench = Searching(writes=True)
    bench.llm.texts = {"answer": ["wrong", "right"]}
    call = bench.submit(oneshot)
    bench.look(worse=5)
    answer = bench.ended(call)
    assert (answer.text, deltas(call)) == ("right", "right")
    (told,) = answer.receipt.speculations
    assert not told.is_adopted
    assert told.tokens_wasted == told.tokens_prompt - 4 + 2


def test_what_is_written_so_far_streams_at_once_and_the_decode_goes_on_behind_it(oneshot):
    bench = Searching(writes=True)
    bench.llm.holds = is_ahead
    call = bench.submit(oneshot)
    bench.look()
    (ahead,) = decodes(bench)
    bench.llm.answer(bench.guesses()[0].task_id)
    bench.llm.post(Progress(ahead.task_id, (104,), "he"))
    bench.cycle()
    assert deltas(call) == ""
    bench.llm.shown["answer"] = "he"
    bench.vector.answer_all()
    bench.cycle()
    assert deltas(call) == "he", "shown before the engine has said anything"
    assert [command.task_id for command in bench.llm.sent(Cancel)] == [ahead.task_id]
    (prompt,), decode = prompts(bench), decodes(bench)[-1]
    assert prompt.segments[-1].token_ids == (104,)
    assert (decode.payload.continues, decode.payload.resumes) == (1, 1)
    bench.llm.answer_all()
    bench.cycle()
    assert (call.answer.text, deltas(call)) == ("hello", "hello")
    bench.assert_idle()


def test_a_text_that_is_shown_has_won_though_its_prompt_is_computed_again(oneshot):
    bench = Searching(writes=True)
    bench.llm.lane_of = lambda task_id: f"lane {task_id}"
    bench.llm.holds = is_ahead
    call = bench.submit(oneshot)
    bench.look()
    (guess,), (ahead,) = bench.guesses(), decodes(bench)
    bench.llm.answer(guess.task_id)
    bench.llm.post(Progress(ahead.task_id, (104,), "he"))
    bench.cycle()
    bench.llm.holds = lambda task: False
    (told,) = bench.ended(call).receipt.speculations
    assert (told.is_adopted, told.tokens_written) == (True, 1)
    assert told.tokens_wasted == len(guess.payload.token_ids) - 4


def test_a_decode_ahead_that_fails_is_noted_and_costs_nothing_else(oneshot):
    bench = Searching(writes=True)
    bench.llm.holds = is_ahead
    call = bench.submit(oneshot)
    bench.look()
    (ahead,) = decodes(bench)
    bench.llm.answer(bench.guesses()[0].task_id)
    bench.llm.fail(ahead.task_id)
    bench.cycle()
    bench.llm.holds = lambda task: False
    answer = bench.ended(call)
    assert answer.text == "hello"
    assert answer.receipt.speculations[0].is_adopted, "its prompt was computed"
    assert [one.partition(":")[2].strip() for one in reasons(answer.receipt)] == ["it broke"]


def test_a_text_is_held_back_from_a_request_that_ends(oneshot):
    bench = Searching(writes=True)
    bench.llm.holds = is_ahead
    call = bench.submit(oneshot)
    bench.look()
    bench.cancel(call)
    assert deltas(call) == ""
    bench.assert_idle()


def test_a_lane_that_dies_takes_the_text_with_it(oneshot):
    bench = Searching(writes=True)
    bench.llm.holds = is_ahead
    call = bench.submit(oneshot)
    bench.look()
    bench.llm.lose_lane()
    bench.cycle()
    bench.llm.holds = lambda task: False
    answer = bench.ended(call)
    assert (answer.text, deltas(call)) == ("hello", "hello")
    assert not answer.receipt.speculations[0].is_adopted


def test_a_text_that_becomes_whole_while_its_prompt_waits_is_not_written_on():
    graph = RAGraph("oneshot").add_retrieval("find", topk=2, output="docs")
    graph.add_generation("answer", "Notes: {docs}Question: {query}!", max_tokens=2)
    bench = Searching(writes=True, llm=2)
    bench.llm.holds = lambda task: True
    call = bench.submit(graph.compile())
    bench.look()
    guess, ahead = bench.guesses()[0], decodes(bench)[0]
    other = bench.submit(RAGraph("plain").add_generation("other", "{query}").compile())
    bench.llm.answer(guess.task_id)
    bench.vector.answer_all()
    bench.cycle()
    bench.llm.answer(ahead.task_id, Generated("hello", (0, 3), FinishReason.LENGTH))
    bench.cycle()
    while bench.llm.open:
        bench.llm.answer_all()
        bench.cycle()
    assert (call.answer.text, other.answer.text) == ("hello", "hello")
    assert not any(task.payload.continues for task in decodes(bench))
    bench.assert_idle()
