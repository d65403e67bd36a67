"""Workflows written as functions: they run as graphs do, and errors name their lines."""

import asyncio
import logging
from dataclasses import dataclass

import pytest

from heddle.core.errors import Cancelled, WorkflowError
from heddle.core.payloads import DecodePayload, EmbedPayload, PrefillPayload
from heddle.core.tasks import Optimizations, Priority
from heddle.passes.runner import PassRunner
from heddle.runtime.events import NodeStarted
from heddle.workflow.function import as_workflow
from tests.helpers.fake_ports import Bench


def submit(bench, function, optimizations=Optimizations.EXACT, **inputs):
    workflow, values = function.compile(), {"query": "why", **inputs}
    return bench.submit(workflow, values, optimizations=optimizations)


def prompts_of(bench):
    return [
        "".join(map(chr, t.payload.token_ids))
        for t in bench.llm.tasks()
        if isinstance(t.payload, PrefillPayload)
    ]


def texts_of(bench):
    return [t.payload.texts for t in bench.embedding.tasks() if isinstance(t.payload, EmbedPayload)]


@as_workflow
async def oneshot(rag, query):
    docs = await rag.retrieve(query, topk=2)
    return await rag.generate(f"Notes: {docs}Question: {query}!")


def test_what_it_calls_runs_as_in_a_graph(bench, oneshot_graph):
    own, drawn = Bench(), Bench()
    call, other = submit(own, oneshot), drawn.submit(oneshot_graph)
    assert prompts_of(own) == prompts_of(drawn)
    assert texts_of(own) == texts_of(drawn)
    assert call.answer.text == other.answer.text
    assert call.answer.passages == other.answer.passages
    assert call.answer.receipt.barriers == ()
    assert call.answer.receipt.passes == other.answer.receipt.passes
    own.assert_idle()


@pytest.fixture
def oneshot_graph():
    from heddle.workflow.ragraph import RAGraph

    graph = RAGraph("oneshot").add_retrieval("find", topk=2, output="docs")
    return graph.add_generation("answer", "Notes: {docs}Question: {query}!").compile()


def test_equal_requests_share_their_plans(bench):
    submit(bench, oneshot)
    planned = bench.runtime.planner.lowered_of("oneshot")
    assert planned
    submit(bench, oneshot)
    assert bench.runtime.planner.lowered_of("oneshot") == planned


def test_it_branches_on_what_a_model_wrote(bench):
    @as_workflow
    async def judged(rag, query):
        judge = await rag.generate(f"Is {query} easy?", name="judge")
        if "hello" in judge:
            return await rag.generate(f"Answer {query}", name="quick")
        docs = await rag.retrieve(query)
        return await rag.generate(f"{docs}{query}", name="slow")

    call = submit(bench, judged)
    assert [e.node for e in call.events if isinstance(e, NodeStarted)] == ["judge", "quick"]
    (barrier,) = call.answer.receipt.barriers
    assert barrier.endswith("waited for 'judge'")
    bench.assert_idle()


def test_a_loop_calls_the_same_node_again_and_collects(bench):
    bench.llm.texts["answer"] = ["one", "three"]

    @as_workflow
    async def again(rag, query):
        docs, answer = False, ""
        for _ in range(2):
            docs = await rag.retrieve(f"{query} {answer}", topk=2, name="docs", collect=docs)
            answer = await rag.generate(f"{docs}{query}", name="answer")
        return answer

    call = submit(bench, again)
    assert texts_of(bench) == [("why",), ("why one",)]
    turns = [(e.node, e.turn) for e in call.events if isinstance(e, NodeStarted)]
    assert turns == [("docs", 0), ("answer", 0), ("docs", 1), ("answer", 1)]
    assert [p.chunk_id for p in call.answer.passages] == [3, 4, 7, 8]
    assert call.answer.text == "three"
    assert call.answer.receipt.barriers == ()
    bench.assert_idle()


def test_a_list_is_searched_for_item_by_item_or_used_in_python(bench):
    bench.llm.texts["parts"] = ["who\nwhen it was"]

    @as_workflow
    async def parts(rag, query):
        items = await rag.generate(f"Split {query}", name="parts", parse="lines")
        docs = await rag.retrieve(f"{query} {items}", collect=True, topk=1)
        notes = [await rag.generate(f"Note {item}{docs}") for item in items]
        return await rag.generate(" ".join(f"{note}" for note in notes))

    call = submit(bench, parts)
    assert texts_of(bench) == [("why who", "why when it was")]
    assert len(prompts_of(bench)) == 4
    assert "hello hello" in prompts_of(bench)[-1]
    assert len(call.answer.receipt.barriers) == 1
    bench.assert_idle()


@as_workflow
async def counted(rag, query):
    items = await rag.generate(f"Split {query}", name="parts", parse="lines")
    if len(items) < 9:
        docs = await rag.retrieve(f"{query} {items}", name="docs")
    return await rag.generate(f"{docs}{query}")


def test_a_barrier_names_the_passes_that_could_not_act_across_it(bench):
    bench.llm.texts["parts"] = ["who\nwhen it was"]
    for optimizations in (Optimizations.EXACT, Optimizations.OFF, Optimizations.EXACT):
        (barrier,) = submit(bench, counted, optimizations=optimizations).answer.receipt.barriers
        could_not = ": pipeline_decoding could not act across it"
        assert "waited for 'parts'" in barrier
        assert barrier.endswith(could_not) is (optimizations is Optimizations.EXACT)
    bench.assert_idle()


def test_no_disabled_pass_is_named(bench):
    disabled = frozenset({"pipeline_decoding"})
    own = Bench(runner=PassRunner(bench.clock, disabled=disabled))
    (barrier,) = submit(own, counted).answer.receipt.barriers
    assert barrier.endswith("waited for 'parts'")


def test_a_tool_gets_values_and_constants(bench):
    @as_workflow
    async def tools(rag, query):
        doubled = await rag.tool(lambda text, times: text * times, query, 2)
        return f"{doubled.value}!"

    assert submit(bench, tools).answer.text == "whywhy!"


def test_arguments_that_are_known_are_each_request_s_own(bench):
    @as_workflow
    async def keeps(rag, query):
        return str(await rag.tool(lambda *values: values, [1], {"a": 2}, f"{query}?"))

    assert submit(bench, keeps).answer.text == "([1], {'a': 2}, 'why?')"


def test_equal_numbers_of_other_types_are_other_arguments(bench):
    values = [1, True, 1.0, 0.0, -0.0, "1"]
    given = list(values)

    @as_workflow
    async def told(rag, query):
        return str(await rag.tool(repr, given.pop(0)))

    assert [submit(bench, told).answer.text for _ in values] == [repr(v) for v in values]
    bench.assert_idle()


def test_a_text_that_it_returns_holds_the_values(bench):
    @as_workflow
    async def quoted(rag, query):
        answer = await rag.generate(f"{query}", name="answer")
        return f"{query}: {answer}!"

    answer = submit(bench, quoted).answer
    assert answer.text == "why: hello!"
    assert answer.receipt.barriers[0].startswith("its end waited for 'answer'")
    bench.assert_idle()


def test_settings_of_a_call_may_hold_values(bench):
    @as_workflow
    async def styled(rag, query):
        style = await rag.generate(f"{query}", name="style")
        count = await rag.tool(lambda: 2)
        docs = await rag.retrieve(style, topk=count)
        return await rag.generate(docs, system=f"Be {style}.")

    call = submit(bench, styled)
    assert "Be hello." in prompts_of(bench)[-1]
    assert len(call.answer.passages) == 2


def test_a_deferred_value_is_used_as_the_value(bench):
    bench.llm.texts["count"] = ["3 mills"]

    @as_workflow
    async def used(rag, query):
        count = await rag.generate("Count: " + query + "?", name="count")
        number = await rag.tool(lambda text: int(text[0]), count)
        assert count.upper().split() == ["3", "MILLS"]
        assert (int(number), float(number), number + 1, 1 + number) == (3, 3.0, 4, 4)
        assert [number > 2, number <= 3, number >= 3, number > 3] == [True, True, True, False]
        assert not hasattr(number, "_anything")
        return "yes"

    assert submit(bench, used).answer.text == "yes"
    assert prompts_of(bench) == [p for p in prompts_of(bench) if "Count: why?" in p]
    assert len(submit(bench, used).answer.receipt.barriers) == 2


def test_what_a_call_tells_its_engine_is_as_in_a_graph(oneshot_graph):
    own, drawn = Bench(), Bench()
    for one, workflow in ((own, named.compile()), (drawn, oneshot_graph)):
        one.submit(workflow, deadline_s=7.0, tenant="t", priority=Priority.INTERACTIVE)

    def told(one):
        tasks = [task for port in one.ports for task in port.tasks()]
        return [(t.kind, t.identity, t.seconds_left, t.optimizations) for t in tasks]

    assert told(own) == told(drawn)
    assert {identity.node for _, identity, _, _ in told(own)} == {"find", "answer"}
    assert {seconds_left for _, _, seconds_left, _ in told(own)} == {7.0}


@as_workflow
async def named(rag, query):
    docs = await rag.retrieve(query, topk=2, name="find")
    return await rag.generate(f"Notes: {docs}Question: {query}!", name="answer")


def test_it_may_return_passages_and_further_inputs_are_slots(bench):
    @as_workflow
    async def found(rag, query, place):
        return await rag.retrieve(f"{query} in {place}", topk=2)

    answer = submit(bench, found, place="Rome").answer
    assert texts_of(bench) == [("why in Rome",)]
    assert [p.chunk_id for p in answer.passages] == [11, 12]
    assert answer.text == ""


def test_braces_and_marks_in_texts_are_texts(bench):
    @as_workflow
    async def quoted(rag, query):
        return await rag.generate(f"{{docs}} \0x\0 {query}")

    submit(bench, quoted)
    assert "{docs} \0x\0 why" in prompts_of(bench)[0]


class Elsewhere:
    """What no call gives."""

    def __await__(self):
        yield "something"


def failing(body):
    @as_workflow(max_steps=5)
    async def broken(rag, query):
        return await body(rag, query)

    return broken


async def raises(rag, query):
    return [][1]


async def never_ends(rag, query):
    while True:
        await rag.generate(f"{query}")


async def returns_a_number(rag, query):
    return 3


async def awaits_another(rag, query):
    await Elsewhere()


async def raises_after_a_value(rag, query):
    if await rag.generate(f"{query}"):
        raise ValueError("no good")


async def leaves(rag, query):
    raise SystemExit(3)


async def gives_up(rag, query):
    raise asyncio.CancelledError("late")


async def gathers(rag, query):
    await asyncio.gather(rag.generate(f"{query}"), rag.generate(f"{query}"))


async def asks_too_much(rag, query):
    return await rag.generate(f"{query}", max_tokens=0)


async def calls_an_async_tool(rag, query):
    return await rag.tool(raises, 1, query)


def test_values_stand_in_texts_within_lists_and_mappings(bench):
    @as_workflow
    async def nested(rag, query):
        first = await rag.tool(lambda: "a")
        given = [f"x {first}", {"k": (f"{first}!", first)}, 3]
        return str(await rag.tool(lambda *values: values, given))

    text = submit(bench, nested).answer.text
    assert text == "(['x a', {'k': ('a!', 'a')}, 3],)"


def test_the_repr_of_a_value_that_is_there_is_the_values(bench):
    @as_workflow
    async def quoting(rag, query):
        note = await rag.tool(lambda: ["a"])
        return await rag.generate(f"{query!r} {query=} {len(note)} {note!r}")

    call = submit(bench, quoting)
    [prompt] = prompts_of(bench)
    assert "'why' query='why' 1 ['a']" in prompt
    assert len(call.answer.receipt.barriers) == 1


def test_a_repr_of_a_value_that_waits_is_refused_in_a_prompt(bench):
    @as_workflow
    async def quoting(rag, query):
        note = await rag.tool(lambda: ["a"])
        assert repr(note).startswith("Deferred('tool_line_")
        return await rag.generate(f"Note: {note!r}")

    call = submit(bench, quoting)
    with pytest.raises(WorkflowError, match=r"use \.value"):
        raise call.error


def test_stop_strings_may_hold_values(bench):
    @as_workflow
    async def stops(rag, query):
        return await rag.generate(f"{query}", stop=[f"{query}"])

    submit(bench, stops)
    [decode] = [t.payload for t in bench.llm.tasks() if isinstance(t.payload, DecodePayload)]
    assert decode.sampling.stop == ("why",)


def test_a_list_without_values_reaches_a_tool_as_it_is(bench):
    found = [["a"], {"k": ["b"]}]

    @as_workflow
    async def told(rag, query):
        await rag.tool(lambda given: given[0].append("c"), found)
        return str(await rag.tool(lambda: "done"))

    assert submit(bench, told).answer.text == "done"
    assert found == [["a", "c"], {"k": ["b"]}]


@pytest.mark.parametrize(
    "change",
    [
        str.upper,
        str.lower,
        str.title,
        lambda text: text[:8],
        lambda text: text[8:],
        lambda text: text[: len(text) // 2] + " more",
    ],
)
@pytest.mark.parametrize("use", ["prompt", "query", "argument", "answer"])
def test_a_cut_or_changed_text_with_a_value_is_refused(bench, change, use):
    @as_workflow
    async def changed(rag, query):
        text = change(f"{query} and more")
        if use == "prompt":
            return await rag.generate(text)
        if use == "query":
            return await rag.retrieve(text)
        return await rag.tool(str, [text]) if use == "argument" else text

    call = submit(bench, changed)
    with pytest.raises(WorkflowError, match="cut or changed an f-string"):
        raise call.error
    bench.assert_idle()


async def extracts_from_a_name(rag, query):
    return await rag.extract("docs", query)


async def retrieves_within_a_name(rag, query):
    return await rag.retrieve(query, within="indexed")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (extracts_from_a_name, "extract: give it passages, what a call gave, got 'docs'"),
        (retrieves_within_a_name, "retrieve: within is what rag.index gave, got 'indexed'"),
        (calls_an_async_tool, "tool: a tool is a plain function: wrap it in asyncio.run"),
        (raises, r"line \d+ of .*test_function_calls.py: IndexError"),
        (never_ends, "made more than 5 calls"),
        (returns_a_number, "returned int: return what a call gave"),
        (awaits_another, "do that in a tool"),
        (raises_after_a_value, "ValueError: no good"),
        (leaves, "SystemExit: 3"),
        (gives_up, "CancelledError: late"),
        (gathers, "as they are, without asyncio.gather"),
        (asks_too_much, "max_tokens must be at least 1"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_goes_wrong_ends_its_own_request_alone(bench, body, message):
    bench.llm.holds = lambda task: task.identity.node == "other"

    @as_workflow
    async def other(rag, query):
        return await rag.generate(f"{query}", name="other")

    beside = submit(bench, other)
    call = submit(bench, failing(body))
    assert isinstance(call.error, WorkflowError)
    with pytest.raises(WorkflowError, match=message):
        raise call.error
    bench.llm.answer_all()
    bench.cycle()
    assert beside.answer.text == "hello"
    bench.assert_idle()


def test_a_function_that_waits_ends_with_its_request(bench):
    ended = []
    bench.llm.holds = lambda task: True

    @as_workflow
    async def waiting(rag, query):
        try:
            return str(await rag.generate(f"{query}"))
        finally:
            ended.append(True)

    call = submit(bench, waiting)
    bench.cancel(call)
    assert ended == [True]
    bench.assert_idle()


def test_what_it_raises_when_its_request_ends_ends_there(bench, caplog):
    bench.llm.holds = lambda task: True

    @as_workflow
    async def raises_late(rag, query):
        try:
            return str(await rag.generate(f"{query}"))
        finally:
            raise ValueError("too late")

    call = submit(bench, raises_late)
    with caplog.at_level(logging.ERROR):
        bench.cancel(call)
    assert isinstance(call.error, Cancelled)
    assert "raised when its request had ended" in caplog.text
    bench.assert_idle()


def test_a_value_of_another_run_is_refused(bench):
    kept = []

    @as_workflow
    async def keeps(rag, query):
        kept.append(await rag.generate(f"{query}"))
        return kept[0]

    submit(bench, keeps)
    with pytest.raises(WorkflowError, match="outside of the function's own run"):
        str(kept[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_workflow(lambda rag, query: None), "async def"),
        (lambda: as_workflow(max_steps=0)(oneshot.function), "max_steps"),
    ],
)
def test_what_is_no_workflow_function_is_refused(make, message):
    with pytest.raises(WorkflowError, match=message):
        make()


def test_its_parameters_are_its_inputs():
    async def no_question(rag):
        return ""

    async def has_default(rag, query, place="Rome"):
        return ""

    async def has_alias(rag, query, input):
        return ""

    for function in (no_question, has_default, has_alias):
        with pytest.raises(WorkflowError, match="query"):
            as_workflow(function)
    assert oneshot.inputs == ("query",)


def test_a_single_word_is_a_text_and_no_slot(bench):
    @as_workflow
    async def words(rag, query):
        docs = await rag.retrieve("query")
        return await rag.generate(f"{docs}{query}", needs=docs, if_empty=f"nothing on {query}")

    submit(bench, words, query="what is {this}?")
    assert texts_of(bench) == [("query",)]


def test_an_answer_cites_the_passages_of_its_own_turn(bench):
    bench.llm.texts["write"] = ["first", "second"]

    @as_workflow
    async def two(rag, query):
        found = []
        for question in ("a short one", "a very long one"):
            docs = await rag.retrieve(question, topk=1, name="find")
            found.append(await rag.generate(f"Notes: {docs}{query}", name="write"))
        return found[0]

    answer = submit(bench, two).answer
    assert answer.text == "first"
    assert [p.chunk_id for p in answer.passages] == [len("a short one")]


def test_a_stand_in_cites_nothing_of_the_turn_before(bench):
    @as_workflow
    async def two(rag, query):
        docs = await rag.retrieve("a first question", topk=1)
        for note in ("x", ""):
            known = await rag.tool(lambda note=note: note)
            last = await rag.generate(f"{docs}{query}", name="w", needs=known, if_empty="nothing")
        return last

    answer = submit(bench, two).answer
    assert answer.text == "nothing"
    assert len(prompts_of(bench)) == 1


def test_a_tool_may_be_an_object_without_a_hash(bench):
    @dataclass
    class Marked:
        mark: str

        def __call__(self, text):
            return text + self.mark

    @as_workflow
    async def marked(rag, query):
        first = str(await rag.tool(Marked("!"), query))
        return await rag.tool(Marked("?"), first)

    assert submit(bench, marked).answer.text == "why!?"
    assert submit(bench, marked).answer.text == "why!?"
    bench.assert_idle()
