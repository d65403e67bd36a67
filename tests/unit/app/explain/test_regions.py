"""Which regions a workflow has, before and after runs have opened some."""

import pytest

from heddle.app.explain.regions import ExplainedRegion, Regions, regions_of, with_opened
from heddle.graph.pgraph import PGraph
from heddle.workflow.function import as_workflow
from heddle.workflow.presets import preset
from heddle.workflow.ragraph import END, START, RAGraph


def whens(regions: Regions) -> list[str]:
    return [region.when for region in regions.found]


def test_a_graph_without_callable_edges_has_one():
    regions = regions_of(preset("oneshot").compile())
    assert whens(regions) == ["where a request begins"]
    assert not regions.left_out
    assert regions.found[0].places == {("retrieve", 0), ("answer", 0)}


def test_a_loop_has_its_first_turn_and_a_later_one():
    regions = regions_of(preset("irg").compile())
    assert whens(regions)[1:] == ["where the edge after 'answer' chooses 'retrieve' again"]
    assert regions.found[1].places == {("retrieve", 1), ("answer", 1)}


def branching() -> RAGraph:
    graph = RAGraph("branching")
    graph.add_generation("judge", "Judge {query}.", output="verdict")
    graph.add_retrieval("find", output="docs")
    graph.add_generation("answer", "{docs}{query}")
    graph.add_generation("refuse", "Say no to {query}.")
    graph.add_edge(START, "judge")
    graph.add_edge("judge", lambda state: "find", targets=["find", "refuse"])
    graph.add_edge("find", "answer").add_edge("answer", END).add_edge("refuse", END)
    return graph


def test_a_branch_has_one_for_each_way():
    regions = regions_of(branching().compile())
    assert whens(regions) == [
        "where a request begins",
        "where the edge after 'judge' chooses 'find'",
        "where the edge after 'judge' chooses 'refuse'",
    ]
    assert regions.found[1].places == {("find", 0), ("answer", 0)}


def test_more_than_a_page_can_show_are_cut_and_that_is_told():
    regions = regions_of(branching().compile(), regions_max=2)
    assert (len(regions.found), regions.left_out) == (2, True)


def test_rounds_of_a_generation_are_regions():
    graph = RAGraph("mine").add_retrieval("find")
    graph.add_generation("write", "{docs}{query}", retrieve_every=16, retrievals_max=3)
    when = whens(regions_of(graph.compile()))[1]
    assert when == (
        "node 'write' retrieves after every 16 tokens, at most 3 times; "
        "the first time it goes on with this"
    )


def test_a_function_has_none_before_it_runs():
    @as_workflow
    async def mine(rag, query):
        return await rag.generate(f"{query}")

    assert regions_of(mine.compile()) == Regions(())


class TestOpened:
    KNOWN = regions_of(preset("irg").compile())

    def test_what_was_opened_stands_in_the_place_of_what_was_foreseen(self):
        changed = self.KNOWN.found[1].graph.with_edges(self.KNOWN.found[1].graph.edges)
        regions = with_opened(self.KNOWN, [changed])
        assert regions.found[1].graph is changed
        assert regions.found[0] is not None
        assert whens(regions) == whens(self.KNOWN)

    def test_what_was_not_foreseen_comes_last(self):
        (first,) = regions_of(preset("oneshot").compile()).found
        regions = with_opened(Regions(()), [first.graph, first.graph])
        assert regions.found == (ExplainedRegion("as the runs opened it", first.graph),)

    @pytest.mark.parametrize("opened", [[], [PGraph((), frozenset())]])
    def test_the_others_stay(self, opened: list[PGraph]):
        assert with_opened(self.KNOWN, opened).found[:2] == self.KNOWN.found
