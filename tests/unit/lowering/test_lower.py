"""Regions: what a workflow lowers to, turn after turn."""

from heddle import END, START, RAGraph
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind, depths
from heddle.graph.primitive import (
    CollectConfig,
    ConditionConfig,
    EmbedConfig,
    IngestConfig,
    PrefillConfig,
    Read,
)
from heddle.graph.verify import verify
from heddle.lowering.lower import Region, lower_region
from heddle.lowering.scope import initial_scope
from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import IndexingNode
from heddle.workflow.presets import irg
from heddle.workflow.workflow import Workflow


def first_region(workflow: Workflow) -> Region:
    region = lower_region(
        workflow, workflow.entries, initial_scope(dict.fromkeys(workflow.inputs, ""))
    )
    verify(region.graph)
    return region


def listing_1() -> Workflow:
    graph = RAGraph()
    graph.add_generation(0, prompt="Decompose {input} into subquestions.", output="subquestion")
    graph.add_retrieval(1, topk=2, query="subquestion", output="docs")
    graph.add_generation(2, prompt="Answer {subquestion} using {docs}.")
    graph.add_edge(START, 0).add_edge(0, 1).add_edge(1, 2)
    graph.add_edge(2, lambda state: 1 if state.get("subquestion") else END)
    return graph.compile()


def test_a_generation_is_prefilling_then_decoding() -> None:
    graph = RAGraph().add_generation("g", "Say {query}").compile()
    region = first_region(graph)
    assert [p.kind for p in region.graph.primitives] == [
        PrimitiveKind.PREFILLING,
        PrimitiveKind.DECODING,
    ]
    config = region.graph.primitives[0].config
    assert isinstance(config, PrefillConfig)
    assert config.parts == ("Say ", Read("query@input"))


def test_depth_is_the_longest_way_to_the_output() -> None:
    graph = RAGraph()
    graph.add_generation("deep", "{query}", output="draft")
    graph.add_retrieval("near", query="query", output="docs")
    graph.add_generation("last", "{draft} {docs}")
    region = first_region(graph.compile())
    depth = depths(region.graph)
    assert depth["last.decoding@0"] == 0
    assert depth["last.prefilling@0"] == 1
    assert depth["near.searching@0"] == depth["deep.decoding@0"] == 2


def test_turns_take_the_items_of_a_list_one_by_one() -> None:
    workflow = listing_1()
    region = first_region(workflow)
    for turn in range(3):
        embed = next(p for p in region.graph.primitives if p.kind is PrimitiveKind.EMBEDDING)
        condition = region.graph.primitives[-1]
        assert embed.name == f"1.embedding@{turn}"
        assert isinstance(embed.config, EmbedConfig)
        assert embed.config.parts == (Read("subquestion@0", turn),)
        assert isinstance(condition.config, ConditionConfig)
        assert dict(condition.config.state)["subquestion"] == Read("subquestion@0", turn + 1)
        assert condition.config.turn == turn + 1
        region = lower_region(workflow, (1,), region.scope)
        verify(region.graph)


def test_writing_the_list_again_starts_over() -> None:
    workflow = listing_1()
    scope = first_region(workflow).scope
    again = lower_region(workflow, (0,), scope)
    verify(again.graph)
    embed = next(p for p in again.graph.primitives if p.kind is PrimitiveKind.EMBEDDING)
    assert isinstance(embed.config, EmbedConfig)
    assert embed.config.parts == (Read("subquestion@1", 0),)


def test_collect_joins_the_turns() -> None:
    workflow = irg().compile()
    first = first_region(workflow)
    second = lower_region(workflow, ("retrieve",), first.scope)
    verify(second.graph)
    collect = next(p for p in second.graph.primitives if p.kind is PrimitiveKind.AGGREGATE)
    assert isinstance(collect.config, CollectConfig)
    assert collect.config.parts == (Read("docs@0"), Read("retrieve.hits@1"))
    assert dict(second.scope.keys)["docs"] == "docs@1"


def test_a_tool_keeps_its_template_order_as_an_effect() -> None:
    graph = RAGraph()
    graph.add_retrieval("r", query="query", output="docs")
    graph.add_tool("t", lambda query: None, ["query"], output="noted")
    graph.add_edge(START, "r").add_edge("r", "t").add_edge("t", END)
    region = first_region(graph.compile())
    assert Edge("r.searching@0", "t.tool@0", EdgeKind.EFFECT) in region.graph.edges


def test_indexing_is_embedding_then_ingestion() -> None:
    node = IndexingNode("index", "texts", "chunk_ids", "stored")
    inputs = frozenset({"texts", "chunk_ids"})
    workflow = compile_draft(Draft("index", {"index": node}, (), (), (), (), inputs, 1))
    region = first_region(workflow)
    embed, ingest = region.graph.primitives
    assert (embed.kind, ingest.kind) == (PrimitiveKind.EMBEDDING, PrimitiveKind.INGESTION)
    assert isinstance(ingest.config, IngestConfig)
    assert ingest.config.chunk_ids == "chunk_ids@input"
    assert Edge(embed.name, ingest.name, EdgeKind.DATA) in region.graph.edges
