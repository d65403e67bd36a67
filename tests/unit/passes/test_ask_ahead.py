"""A question runs ahead of the prefill that waits for passages, and no primitive waits for it."""

from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind
from heddle.graph.primitive import AskConfig, Read
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.rounds import lower_round
from heddle.lowering.scope import initial_scope
from heddle.passes.ask_ahead import AskAhead
from heddle.workflow.presets import PRESETS
from heddle.workflow.ragraph import RAGraph


def lowered(graph):
    workflow = graph.compile()
    inputs = dict.fromkeys(workflow.inputs, "")
    return lower_region(workflow, workflow.entries, initial_scope(inputs)).graph


def askings(graph):
    asked = AskAhead().apply(graph)
    if asked is None:
        return []
    verify(asked)
    kept = [p for p in asked.primitives if p.kind is not PrimitiveKind.ASKING]
    assert kept == list(graph.primitives)
    assert graph.edges <= asked.edges
    added = [p for p in asked.primitives if p.kind is PrimitiveKind.ASKING]
    assert asked.primitives[: len(added)] == tuple(added)
    assert not {e.producer for e in asked.edges} & {p.name for p in added}
    return added


def test_what_follows_the_passages_is_the_question():
    (asking,) = askings(lowered(PRESETS["oneshot"]()))
    assert asking.name == "answer.asking@0"
    question = "Question: ", Read("query@input")
    assert asking.config == AskConfig(question, "answer.prefilling@0", is_fenced=True)
    assert (asking.reads, asking.writes) == (("query@input",), ())


def test_a_question_that_is_written_first_is_waited_for():
    graph = RAGraph("rewrite")
    graph.add_generation("rewrite", "Say it otherwise: {query}", output="better")
    graph.add_retrieval("find", query="query", output="docs")
    graph.add_generation("answer", "{docs}Question: {better}")
    region = lowered(graph)
    (asking,) = askings(region)
    assert asking.reads == ("better@0",)
    edge = Edge("rewrite.decoding@0", asking.name, EdgeKind.DATA)
    assert edge in AskAhead().apply(region).edges


def test_passages_that_a_loop_collects_are_passages():
    collecting = RAGraph("collecting")
    collecting.add_retrieval("find", output="docs", collect=True)
    collecting.add_generation("answer", "{docs}Question: {query}")
    (asking,) = askings(lowered(collecting))
    assert asking.reads == ("query@input",)


def test_only_what_stands_behind_the_last_passages():
    graph = RAGraph("two")
    graph.add_retrieval("first", output="a")
    graph.add_retrieval("second", output="b")
    graph.add_generation("answer", "{a}And {b}Question: {query}")
    (asking,) = askings(lowered(graph))
    assert asking.config.parts == ("Question: ", Read("query@input"))


def test_without_passages_or_a_question_nothing_changes():
    draft = RAGraph("draft").add_generation("write", "Write {query}.")
    ending = RAGraph("ending")
    ending.add_retrieval("find", output="docs")
    ending.add_generation("answer", "Answer {query} from {docs}")
    assert askings(lowered(draft)) == askings(lowered(ending)) == []


def test_a_round_whose_prompt_ends_with_the_text_so_far_is_left_alone():
    graph = RAGraph("rounds")
    graph.add_retrieval("find", output="docs")
    graph.add_generation("answer", "{docs}Question: {query}", retrieve_every=4, query="{query}")
    region = lowered(graph)
    assert len(askings(region)) == 1
    (rounds,) = [p for p in region.primitives if p.name == "answer.rounds@0"]
    assert askings(lower_round(rounds, 1, 0)) == []
