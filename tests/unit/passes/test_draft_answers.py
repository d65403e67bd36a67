"""Only a loop's later turns have an earlier text, and rounds of one text have none."""

from heddle.graph.primitive import DecodeConfig
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.rounds import lower_round
from heddle.lowering.scope import initial_scope
from heddle.passes.draft_answers import DraftAnswers
from heddle.workflow.presets import irg
from heddle.workflow.ragraph import END, START, RAGraph


def marked(graph):
    rewritten = DraftAnswers().apply(graph)
    if rewritten is None:
        return []
    verify(rewritten)
    assert rewritten.edges == graph.edges
    decodes = [p for p in rewritten.primitives if isinstance(p.config, DecodeConfig)]
    return [p.name for p in decodes if p.config.has_draft]


def test_the_later_turns_are_marked():
    workflow = irg(turns=3).compile()
    scope, found = initial_scope({"query": ""}), []
    for _ in range(3):
        region = lower_region(workflow, workflow.entries, scope)
        found.append(marked(region.graph))
        scope = region.scope
    assert found == [[], ["answer.decoding@1"], ["answer.decoding@2"]]


def test_rounds_of_a_text_are_not():
    graph = RAGraph("rounds")
    graph.add_retrieval("find", topk=2, output="docs")
    graph.add_generation("write", "Write {docs}.", retrieve_every=4, query="{answer}")
    graph.add_edge(START, "find").add_edge("find", "write").add_edge("write", lambda state: END)
    workflow = graph.compile()
    scope = lower_region(workflow, workflow.entries, initial_scope({"query": ""})).scope
    region = lower_region(workflow, workflow.entries, scope)
    (rounds,) = (p for p in region.graph.primitives if p.name == "write.rounds@1")
    assert marked(lower_round(rounds, 0, 1)) == []
