"""Answers from groups of passages: how many calls, in which order, and what each one shows."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.core.payloads import PrefillPayload
from heddle.workflow.model_prompts import model_prompts, with_model_prompts
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.synthesis import add_refine, add_tree
from heddle.workflow.template import Slot
from heddle.workflow.writing import Writing, with_writing
from tests.helpers.fake_ports import Bench


def prompts(bench: Bench) -> dict[str, str]:
    """Return the prompt of each node as text."""
    return {
        task.identity.node: "".join(map(chr, task.payload.token_ids))
        for task in bench.llm.tasks()
        if isinstance(task.payload, PrefillPayload)
    }


def graph(add, topk: int, **options) -> RAGraph:
    return add(RAGraph("grouped").add_retrieval("find", topk=topk), **options)


def test_a_tree_asks_all_groups_at_once_and_then_merges():
    bench = Bench()
    bench.llm.texts = {"part_1": ["one"], "part_2": ["two"], "answer": ["both"]}
    bench.llm.holds = lambda task: task.kind.value == "decoding"
    call = bench.submit(graph(add_tree, 3, groups=2, each=1).compile())
    assert {t.identity.node for t in bench.llm.open.values()} == {"part_1", "part_2"}
    assert {t.identity.depth for t in bench.llm.open.values()} == {3}
    bench.llm.holds = lambda task: False
    bench.llm.answer_all()
    bench.cycle()
    assert call.answer.text == "both"
    shown = prompts(bench)
    assert ("x3" in shown["part_1"], "x4" in shown["part_1"]) == (True, False)
    assert all(text in shown["part_2"] for text in ("x4", "x5"))  # the last has all that are left
    assert "one\ntwo" in shown["answer"]
    assert [p.text for p in call.answer.passages] == ["x3", "x4", "x5"]
    bench.assert_idle()


def test_a_group_without_passages_costs_no_call():
    bench = Bench()
    bench.llm.texts = {"part_1": ["one"]}
    call = bench.submit(graph(add_tree, 1, groups=3).compile())
    assert set(prompts(bench)) == {"part_1"}
    assert call.answer.text == "one"
    assert call.answer.receipt.repeated == 0
    bench.assert_idle()


def test_refining_goes_on_from_the_answer_before():
    bench = Bench()
    bench.llm.texts = {"draft_1": ["a"], "draft_2": ["b"], "answer": ["c"]}
    call = bench.submit(graph(add_refine, 3, groups=3).compile())
    assert call.answer.text == "c"
    shown = prompts(bench)
    assert list(shown) == ["draft_1", "draft_2", "answer"]
    assert "## Answer so far\na\n" in shown["draft_2"]
    assert "## Answer so far\nb\n" in shown["answer"]
    assert ("x4" in shown["draft_2"], "x3" in shown["draft_2"]) == (True, False)
    bench.assert_idle()


def test_refining_ends_where_the_passages_do():
    bench = Bench()
    bench.llm.texts = {"draft_1": ["a"], "draft_2": ["b"]}
    call = bench.submit(graph(add_refine, 2, groups=4).compile())
    assert list(prompts(bench)) == ["draft_1", "draft_2"]
    assert call.answer.text == "b"
    bench.assert_idle()


@pytest.mark.parametrize("add", [add_tree, add_refine])
def test_passages_may_have_another_name_and_a_model_its_own_prompt(add):
    plain = RAGraph("named").add_retrieval("find", output="found", topk=2)
    assert Bench().submit(add(plain, "found", groups=2).compile()).answer.passages
    own = model_prompts({"answer": {"prompt": "Q: {query}\n{docs}A:"}}, "test")
    nodes = with_model_prompts(graph(add, 2, groups=2).compile(), own).nodes
    first = next(node for node in generations(nodes))
    assert first.prompt.parts == ("Q: ", Slot("query"), "\n", Slot("docs", (0, 1)), "A:")


def test_numbers_are_checked():
    for add in (add_tree, add_refine):
        with pytest.raises(WorkflowError, match="groups and each must be at least 1, got 0 and 1"):
            graph(add, 3, groups=0)


def test_what_a_generation_needs():
    with pytest.raises(WorkflowError, match="if_empty is the text where `needs` is empty"):
        RAGraph().add_generation("a", "{query}", if_empty="none")
    with pytest.raises(WorkflowError, match="needs can't go with retrieval while it decodes"):
        RAGraph().add_generation("a", "{docs}", needs="docs", retrieve_every=4)
    bench = Bench()
    graph = RAGraph("span").add_generation("a", "Say {query[0:1]}.")
    with pytest.raises(WorkflowError, match="reads a span of a list or of passages, and slot 'que"):
        raise bench.submit(graph.compile()).error


@pytest.mark.parametrize(("add", "parts"), [(add_tree, "part"), (add_refine, "draft")])
def test_a_text_that_may_be_the_answer_is_written_as_the_request_wants(add, parts: str):
    workflow = graph(add, 3, groups=2).compile()
    changed = with_writing(workflow, Writing(max_tokens=9, prompt="{docs}{query}!")).nodes
    assert {node.sampling.max_tokens for node in generations(changed)} == {9}
    assert changed["answer"].prompt.parts[-1] == "!"
    assert changed[f"{parts}_1"].prompt == workflow.nodes[f"{parts}_1"].prompt


def generations(nodes) -> list[GenerationNode]:
    return [node for node in nodes.values() if isinstance(node, GenerationNode)]
