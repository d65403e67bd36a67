"""How a workflow's answer is written, changed for one request."""

import pytest

from heddle.core.errors import InputError
from heddle.workflow.applications import flare
from heddle.workflow.function import as_workflow
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.presets import PRESETS, preset
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.searches import ChangedWorkflows
from heddle.workflow.template import Slot
from heddle.workflow.workflow import Workflow
from heddle.workflow.writing import AS_IT_IS, Writing, check_writes, with_writing

SEARCH = RAGraph("search").add_retrieval("find").compile()


def node(workflow: Workflow, name: str) -> GenerationNode:
    found = workflow.nodes[name]
    assert isinstance(found, GenerationNode)
    return found


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "quote"])
def test_each_ready_made_workflow_takes_a_prompt_of_passages_and_question(name: str):
    writing = Writing.of(
        {"prompt": "{docs}Q: {input}", "max_tokens": 7, "temperature": 1, "system": "Be brief."}
    )
    answer = node(with_writing(preset(name).compile(), writing), "answer")
    assert answer.prompt.parts == (Slot("docs"), "Q: ", Slot("query"))
    assert (answer.sampling.max_tokens, answer.sampling.temperature) == (7, 1.0)
    assert answer.system == "Be brief."


def test_what_other_nodes_read_is_written_as_before():
    workflow = preset("hyde").compile()
    changed = with_writing(workflow, Writing(max_tokens=7, system="Be brief."))
    assert node(changed, "imagine") == node(workflow, "imagine")
    assert node(changed, "answer").prompt == node(workflow, "answer").prompt


def test_nothing_asked_for_is_the_same_object():
    workflow = preset("hyde").compile()
    assert with_writing(workflow, AS_IT_IS) is workflow
    assert with_writing(SEARCH, Writing(max_tokens=3)) is SEARCH


def test_a_request_goes_over_the_server():
    asked = Writing(max_tokens=9).over(Writing(max_tokens=5, system="Be brief.", temperature=0.5))
    assert asked == Writing(max_tokens=9, system="Be brief.", temperature=0.5)
    workflow = preset("oneshot").compile()
    kept = ChangedWorkflows(writing=Writing(max_tokens=5))
    changed = kept.changed(workflow, topk=None, hybrid=None)
    assert node(changed, "answer").sampling.max_tokens == 5
    assert kept.changed(workflow, topk=None, hybrid=None) is changed
    own = kept.changed(workflow, topk=2, hybrid=None, writing=Writing(max_tokens=6))
    assert node(own, "answer").sampling.max_tokens == 6
    assert kept.changed(SEARCH, topk=None, hybrid=None) is SEARCH, "it writes nothing"


def test_how_tokens_are_drawn_and_where_the_answer_ends():
    writing = Writing.of({"top_p": 0.5, "seed": 7, "stop": "END"})
    answer = node(with_writing(preset("oneshot").compile(), writing), "answer")
    assert (answer.sampling.top_p, answer.sampling.seed) == (0.5, 7)
    assert answer.sampling.stop == ("END",)
    for field, bad in (("top_p", 0), ("seed", -1), ("stop", [""]), ("stop", ["a"] * 17)):
        with pytest.raises(InputError, match=field) as refused:
            Writing.of({field: bad})
        assert refused.value.param == field


def test_a_request_with_a_seed_of_its_own_is_not_kept():
    kept, workflow = ChangedWorkflows(), preset("oneshot").compile()
    drawn, again = (
        kept.changed(workflow, topk=None, hybrid=None, writing=Writing(seed=7)) for _ in range(2)
    )
    assert not drawn.is_kept
    assert drawn is not again


def test_an_own_stop_ends_answers_to_its_own_prompt_only():
    graph = RAGraph("own").add_retrieval("find")
    workflow = graph.add_generation("answer", "{docs}{query}", stop=["\n"]).compile()
    assert node(with_writing(workflow, Writing(max_tokens=3)), "answer").sampling.stop == ("\n",)
    other = with_writing(workflow, Writing(prompt="{docs} {input}"))
    assert node(other, "answer").sampling.stop == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_tokens": 0}, "max_tokens must be an integer from 1 to 32768, got 0"),
        ({"max_tokens": True}, "max_tokens must be an integer"),
        ({"max_tokens": 2.5}, "max_tokens must be an integer"),
        ({"temperature": -0.1}, "temperature must be a number from 0 to 2, got -0.1"),
        ({"temperature": float("nan")}, "temperature must be a number"),
        ({"temperature": "1"}, "temperature must be a number"),
        ({"system": " "}, "system must be a text that is not empty"),
        ({"system": "x" * 9000}, "system has 9,000 characters, more than 8,192"),
        ({"system": "\ud800"}, "system is not valid Unicode"),
        ({"prompt": 3}, "prompt must be a text that is not empty, got 3"),
        ({"prompt": "{docs"}, "prompt: "),
        ({"prompt": "{0}"}, r"prompt: placeholder \{0\} is not a plain name"),
    ],
)
def test_values_that_can_not_be_used_are_named(given: dict[str, object], words: str):
    with pytest.raises(InputError, match=words):
        Writing.of(given)


def test_an_unknown_placeholder_is_refused_with_those_that_there_are():
    words = r"'oneshot' has no value for \{context\}; it has \{docs\}, \{input\}"
    with pytest.raises(InputError, match=words):
        with_writing(preset("oneshot").compile(), Writing(prompt="{context} {query}"))


def test_a_workflow_that_retrieves_while_it_answers_must_be_shown_passages():
    workflow = flare().compile()
    words = r"^prompt: workflow 'flare' adds passages while it answers, so it must show \{docs\}$"
    with pytest.raises(InputError, match=words):
        with_writing(workflow, Writing(prompt="Answer briefly: {input}"))
    shown = with_writing(workflow, Writing(prompt="{docs[0:2]} Answer: {input}"))
    assert node(shown, "answer").prompt.slots == ("docs", "query")
    assert node(with_writing(workflow, Writing(max_tokens=7)), "answer").sampling.max_tokens == 7


def test_what_is_written_later_is_no_placeholder():
    graph = RAGraph("late").add_retrieval("find")
    graph.add_generation("draft", "{docs}{query}", output="draft")
    workflow = graph.add_generation("answer", "{draft}{query}", output="end").compile()
    assert with_writing(workflow, Writing(prompt="{docs}{draft}")) is not workflow
    with pytest.raises(InputError, match=r"no value for \{end\}"):
        with_writing(workflow, Writing(prompt="{end}"))


def test_a_function_refuses_them_and_says_where_they_belong():
    @as_workflow
    async def brief(rag, query):
        return await rag.generate(query)

    check_writes(brief.compile(), AS_IT_IS)
    words = r"max_tokens: workflow 'brief' is a function, .*: give it to rag\.generate"
    with pytest.raises(InputError, match=words):
        check_writes(brief.compile(), Writing(max_tokens=5))


def test_a_workflow_without_an_answering_generation_refuses_them():
    check_writes(SEARCH, AS_IT_IS)
    with pytest.raises(InputError, match="max_tokens and system: no model writes the answer of"):
        check_writes(SEARCH, Writing(max_tokens=3, system="x"))
