"""A request's question runs while its passages are looked for, and never holds it up."""

import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.errors import EngineError
from heddle.core.kv_reuse import KvReuse, QuestionPass, ReusePolicy
from heddle.core.payloads import AskPayload, PrefillPayload, SegmentRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Asked
from heddle.core.tasks import Optimizations
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import POLICIES
from tests.helpers.degraded import reasons
from tests.helpers.fake_ports import Bench, is_search

ALONE = {
    "optimizations": Optimizations.APPROX,
    "kv_reuse": KvReuse(ReusePolicy.FUSIONRAG, 0.15),
}
WITH_CONTEXT = KvReuse(ReusePolicy.FUSIONRAG, question=QuestionPass.WITH_CONTEXT)


def is_asking(task):
    return task.kind is PrimitiveKind.ASKING


def is_generating(task):
    return not is_asking(task)


def asked_by(bench):
    return [task.payload for task in bench.llm.tasks() if is_asking(task)]


def ended(bench, call):
    bench.vector.answer_all()
    bench.cycle()
    answer = call.answer
    bench.assert_idle()
    return answer


def test_the_question_is_run_while_the_search_runs(bench, oneshot):
    bench.vector.holds = is_search
    call = bench.submit(oneshot, **ALONE, tenant="a")
    (payload,) = asked_by(bench)
    assert bench.vector.open, "the search is not over"
    answer = ended(bench, call)
    (prefill,) = [t.payload for t in bench.llm.tasks() if isinstance(t.payload, PrefillPayload)]
    last = max(i for i, s in enumerate(prefill.segments) if s.role is not SegmentRole.CHUNK)
    assert last == len(prefill.segments) - 1
    prompt = [token for segment in prefill.segments for token in segment.token_ids]
    assert prompt[-len(payload.token_ids) :] == list(payload.token_ids)
    question = "".join(map(chr, payload.token_ids[:-1]))
    assert question.startswith("[end of passages ")
    assert question.endswith("\n\nQuestion: why!")
    assert (payload.cache_salt, payload.rows) == ("a", 0)
    assert "ask_ahead" in answer.receipt.passes
    (span,) = [s for s in answer.receipt.spans if s.kind is PrimitiveKind.ASKING]
    assert span.engine == "llm"
    assert not answer.receipt.degradations


@pytest.mark.parametrize(
    "options",
    [
        {},
        {**ALONE, "optimizations": Optimizations.EXACT},
        {**ALONE, "kv_reuse": WITH_CONTEXT},
        {**ALONE, "kv_reuse": KvReuse(ReusePolicy.FUSIONRAG, 0.0)},
        {**ALONE, "kv_reuse": KvReuse(ReusePolicy.EPIC)},
    ],
    ids=["default", "exact", "with_context", "nothing_to_select", "another_policy"],
)
def test_only_where_the_question_selects_by_itself(bench, oneshot, options):
    call = bench.submit(oneshot, **options)
    assert asked_by(bench) == []
    assert "ask_ahead" not in call.answer.receipt.passes


def test_engines_that_cannot_ask_are_not_asked(oneshot):
    bench = Bench()
    bench.llm.kinds = bench.llm.kinds - {PrimitiveKind.ASKING}
    bench = Bench(ports=bench.ports)
    bench.llm = bench.ports[2]
    call = bench.submit(oneshot, **ALONE)
    assert call.answer.text == "hello"
    assert asked_by(bench) == []


def test_one_that_is_not_over_is_cancelled_when_its_prompt_is_sent(bench, oneshot):
    bench.llm.holds = is_asking
    call = bench.submit(oneshot, **ALONE)
    assert call.answer.text == "hello"
    kinds = [
        c.task.kind.value if isinstance(c, Admit) else "cancel"
        for c in bench.llm.commands
        if isinstance(c, Admit | Cancel)
    ]
    assert kinds == ["asking", "cancel", "prefilling", "decoding"]
    bench.assert_idle()


@pytest.mark.parametrize("policy", POLICIES)
def test_one_that_was_never_sent_is_forgotten(oneshot, policy):
    """Until a credit is free neither the question goes nor its prompt."""
    bench = Bench(llm=2, policy=POLICIES[policy])
    bench.llm.holds = is_generating
    first, second = bench.submit(oneshot, **ALONE), bench.submit(oneshot, **ALONE)
    assert len(asked_by(bench)) == 1
    while bench.llm.open:
        bench.llm.answer_all()
        bench.cycle()
    assert (first.answer.text, second.answer.text) == ("hello", "hello")
    if policy == "topology_aware":
        assert len(asked_by(bench)) == 1
    bench.assert_idle()


def test_it_takes_no_credit(oneshot):
    bench = Bench(llm=2)
    bench.vector.holds = is_search
    bench.llm.holds = is_asking
    call = bench.submit(oneshot, **ALONE)
    assert len(bench.llm.open) == 1
    assert bench.llm.credits.used == 0
    assert ended(bench, call).text == "hello"


def test_one_that_fails_costs_a_line_in_the_receipt(bench, oneshot):
    bench.vector.holds = is_search
    bench.llm.holds = is_asking
    call = bench.submit(oneshot, **ALONE)
    bench.llm.fail(next(iter(bench.llm.open)))
    answer = ended(bench, call)
    assert reasons(answer.receipt) == ["answer.asking@0: it broke"]
    assert answer.receipt.retries == 0


def test_one_that_is_refused_costs_a_line_in_the_receipt(bench, oneshot):
    bench.vector.holds = is_search
    bench.llm.holds = is_asking
    call = bench.submit(oneshot, **ALONE)
    bench.llm.answer(next(iter(bench.llm.open)), Asked("too long"))
    assert reasons(ended(bench, call).receipt) == ["too long"]


def test_a_lane_that_dies_meanwhile_costs_nothing_else(bench, oneshot):
    bench.vector.holds = is_search
    bench.llm.holds = is_asking
    call = bench.submit(oneshot, **ALONE)
    bench.llm.lose_lane()
    bench.cycle()
    assert ended(bench, call).text == "hello"


def test_a_search_that_fails_takes_the_question_back(oneshot):
    bench = Bench(limits=RuntimeLimits(retries_max=0))
    bench.vector.holds = is_search
    bench.llm.holds = is_asking
    call = bench.submit(oneshot, **ALONE)
    bench.vector.fail(next(iter(bench.vector.open)))
    bench.cycle()
    assert isinstance(call.error, EngineError)
    assert len(bench.llm.sent(Cancel)) == 1
    bench.assert_idle()


@pytest.mark.parametrize("is_over", [False, True])
def test_a_request_that_is_cancelled_takes_the_question_back(bench, oneshot, is_over):
    bench.vector.holds = is_search
    bench.llm.holds = (lambda task: False) if is_over else is_asking
    call = bench.submit(oneshot, **ALONE)
    assert len(asked_by(bench)) == 1
    bench.cancel(call)
    assert len(bench.llm.sent(Cancel)) == (not is_over)
    bench.assert_idle()


def test_a_generation_that_is_tried_again_asks_no_second_time(bench, oneshot):
    bench.llm.holds = is_generating
    call = bench.submit(oneshot, **ALONE)
    prefill = next(t.task_id for t in bench.llm.tasks() if t.kind is PrimitiveKind.PREFILLING)
    bench.llm.fail(prefill)
    bench.llm.holds = lambda task: False
    bench.cycle()
    bench.llm.answer_all()
    bench.cycle()
    assert call.answer.receipt.retries == 1
    assert isinstance(asked_by(bench)[0], AskPayload)
    assert len(asked_by(bench)) == 1
    bench.assert_idle()


def test_equal_runs_send_equal_commands(oneshot):
    def sent():
        bench = Bench()
        calls = [bench.submit(oneshot, **ALONE) for _ in range(3)]
        assert all(call.answer.text == "hello" for call in calls)
        return [repr(command) for command in bench.llm.commands]

    assert sent() == sent()
