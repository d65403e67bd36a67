"""Generations that retrieve while they decode: their first region, and the rounds after it."""

import pytest

from heddle.core.payloads import NO_PAUSE, Pause
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind, PGraph, depths
from heddle.graph.primitive import (
    DecodeConfig,
    EmbedConfig,
    PrefillConfig,
    Primitive,
    Read,
    RoundsConfig,
    SearchConfig,
    SpliceConfig,
)
from heddle.graph.verify import verify
from heddle.lowering.lower import Region, lower_region
from heddle.lowering.rounds import lower_round
from heddle.lowering.scope import initial_scope
from heddle.passes.prune_dependencies import PruneDependencies
from heddle.workflow.ragraph import END, START, RAGraph
from heddle.workflow.workflow import Workflow


def first_region(workflow: Workflow) -> Region:
    region = lower_region(
        workflow, workflow.entries, initial_scope(dict.fromkeys(workflow.inputs, ""))
    )
    verify(region.graph)
    return region


def rounds_graph() -> RAGraph:
    graph = RAGraph()
    graph.add_retrieval("find", topk=3, nprobe=2)
    return graph.add_generation(
        "write",
        "Read {docs} and say {query}.",
        "text",
        retrieve_every=16,
        query="{query}: {answer} / {sentence}",
        retrievals_max=2,
        added_max=4,
    )


def rounds_of(region: Region) -> Primitive:
    (rounds,) = (p for p in region.graph.primitives if isinstance(p.config, RoundsConfig))
    return rounds


def named(graph: PGraph, name: str) -> Primitive:
    return graph.by_name()[name]


def test_the_first_region_ends_with_what_waits_for_the_rounds() -> None:
    region = first_region(rounds_graph().compile())
    names = [p.name for p in region.graph.primitives if p.node == "write"]
    assert names == ["write.prefilling@0", "write.decoding@0", "write.rounds@0"]
    decode = named(region.graph, "write.decoding@0").config
    assert isinstance(decode, DecodeConfig)
    assert decode.pause == Pause(after=16)
    assert decode.written is None
    rounds = rounds_of(region)
    assert rounds.writes == ("text@0",)
    assert dict(region.scope.keys)["text"] == "text@0"
    assert Edge("write.decoding@0", rounds.name, EdgeKind.DATA) in region.graph.edges


def test_a_round_searches_splices_and_decodes_on() -> None:
    rounds = rounds_of(first_region(rounds_graph().compile()))
    graph = lower_round(rounds, 1, depth=0)
    verify(graph)
    assert [p.kind for p in graph.primitives] == [
        PrimitiveKind.EMBEDDING,
        PrimitiveKind.SEARCHING,
        PrimitiveKind.AGGREGATE,
        PrimitiveKind.PREFILLING,
        PrimitiveKind.DECODING,
    ]
    embed, search, splice, prefill, decode = (p.config for p in graph.primitives)
    assert isinstance(embed, EmbedConfig)
    assert embed.parts == (
        Read("query@input"),
        ": ",
        Read("write.answer.1@0"),
        " / ",
        Read("write.sentence.1@0"),
    )
    assert isinstance(search, SearchConfig)
    assert (search.topk, search.nprobe) == (3, 2)
    assert isinstance(splice, SpliceConfig)
    assert splice.shown == (Read("docs@0"), Read("query@input"))
    assert splice.added is None
    assert splice.written == "write.written@0"
    assert (splice.added_max, splice.tokens_max) == (4, 64)
    assert splice.prefill == "write.prefilling.1@0"
    assert isinstance(prefill, PrefillConfig)
    assert prefill.parts == (
        "Read ",
        Read("docs@0"),
        Read("write.added.1@0"),
        " and say ",
        Read("query@input"),
        ".",
    )
    assert prefill.written == "write.written@0"
    assert isinstance(decode, DecodeConfig)
    assert decode.written == "write.written@0"
    assert decode.pause == Pause(after=16)
    assert graph.inputs == {
        "query@input",
        "docs@0",
        "write.answer.1@0",
        "write.sentence.1@0",
        "write.written@0",
    }


def test_the_next_round_goes_on_from_the_one_before() -> None:
    rounds = rounds_of(first_region(rounds_graph().compile()))
    first, second = lower_round(rounds, 1, 0), lower_round(rounds, 2, 0)
    verify(second)
    written = {key for p in first.primitives for key in p.writes}
    assert {"write.added.1@0", "write.written.1@0"} == second.inputs & written
    decode = named(second, "write.decoding.2@0").config
    assert isinstance(decode, DecodeConfig)
    assert decode.pause == NO_PAUSE  # retrievals_max=2
    assert decode.is_round


def test_rounds_are_as_deep_as_what_waits_for_them() -> None:
    graph = rounds_graph()
    graph.add_generation("judge", "Judge {text}")
    region = first_region(graph.compile())
    depth = depths(region.graph)
    rounds = rounds_of(region)
    assert depth[rounds.name] == 2
    below = depths(lower_round(rounds, 1, depth[rounds.name]))
    assert below["write.decoding.1@0"] == depth["write.decoding@0"] == 3
    assert below["write.embedding.1@0"] == 7


def test_who_reads_the_text_waits_for_the_last_round() -> None:
    graph = rounds_graph()
    graph.add_tool("note", len, ["query"], "noted")
    graph.add_generation("judge", "Judge {text}")
    graph.add_edge(START, "find").add_edge("find", "write").add_edge("write", "note")
    graph.add_edge("note", END).add_edge("judge", END)
    region = first_region(graph.compile())
    pruned = PruneDependencies().apply(region.graph)
    assert pruned is not None
    verify(pruned)
    assert Edge("write.rounds@0", "judge.prefilling@0", EdgeKind.DATA) in pruned.edges
    assert Edge("write.rounds@0", "note.tool@0", EdgeKind.EFFECT) in pruned.edges


@pytest.mark.parametrize(
    ("prompt", "before", "after"),
    [
        ("{docs}{query}", 1, 1),
        ("{query} {docs}", 3, 0),
        ("{docs} {query} {docs} end", 5, 1),
        ("{more} {docs} {query}", 3, 2),
        ("{docs} {more} {query}", 3, 2),
    ],
)
def test_passages_are_added_after_the_last_that_the_prompt_shows(
    prompt: str, before: int, after: int
) -> None:
    graph = RAGraph().add_retrieval("a", topk=1).add_retrieval("b", output="more", topk=2)
    graph.add_generation("write", prompt, retrieve_below=0.5)
    graph.add_generation("other", "{docs}{more}")
    config = rounds_of(first_region(graph.compile())).config
    assert isinstance(config, RoundsConfig)
    assert (len(config.before), len(config.after)) == (before, after)
    assert config.topk == (2 if config.before[-1] == Read("more@0") else 1)


def test_a_round_belongs_to_its_turn_and_its_item() -> None:
    graph = RAGraph()
    graph.add_generation("plan", "Split {query}", "part")
    graph.add_retrieval("find", query="part", topk=1)
    graph.add_generation(
        "write", "{docs}{part}", "text", retrieve_every=1, query="{part} {sentence}"
    )
    graph.add_edge(START, "plan").add_edge("plan", "find").add_edge("find", "write")
    graph.add_edge("write", lambda state: "find" if state["part"] else END, targets=["find"])
    workflow = graph.compile()
    region = first_region(workflow)
    for turn in range(2):
        round_graph = lower_round(rounds_of(region), 1, 0)
        verify(round_graph)
        embed = named(round_graph, f"write.embedding.1@{turn}").config
        assert isinstance(embed, EmbedConfig)
        assert embed.parts[0] == Read("part@0", turn)
        region = lower_region(workflow, ("find",), region.scope)
