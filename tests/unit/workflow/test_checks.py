"""Values that a workflow's builder refuses, in words."""

from functools import partial

import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.ragraph import END, START, RAGraph
from heddle.workflow.ready_made import ready_made


async def fetched(query):
    return query


def pieces(query):
    yield query


async def pieces_later(query):
    yield query


class Fetcher:
    async def __call__(self, query):
        return query


class TestTools:
    @pytest.mark.parametrize("function", [fetched, partial(fetched, "a"), Fetcher()])
    def test_an_async_function_is_refused_as_a_tool(self, function):
        with pytest.raises(WorkflowError, match="plain function: wrap it in asyncio"):
            RAGraph().add_tool("t", function, ["query"], "found")

    @pytest.mark.parametrize("function", [pieces, pieces_later])
    def test_a_generator_function_is_refused_as_a_tool(self, function):
        with pytest.raises(WorkflowError, match="plain function: return a list"):
            RAGraph().add_tool("t", function, ["query"], "found")

    @pytest.mark.parametrize("workflow", ["search_engine", "agent"])
    def test_an_async_function_is_refused_as_a_connector(self, workflow):
        with pytest.raises(WorkflowError, match=r"web_search.*wrap it in asyncio"):
            ready_made(workflow, {"web_search": fetched})

    @pytest.mark.parametrize("function", [len, str, partial(max, "a"), lambda query: query])
    def test_a_plain_callable_is_a_tool(self, function):
        assert RAGraph().add_tool("t", function, ["query"], "found").compile().nodes


class TestTargets:
    def test_end_among_the_targets_of_a_callable_edge_is_no_node(self):
        graph = RAGraph().add_retrieval("a").add_edge(START, "a")
        graph.add_edge("a", lambda state: END, ["a", END])
        [branch] = graph.compile().branches
        assert branch.targets == ("a",)

    @pytest.mark.parametrize("targets", ["find", 1])
    def test_targets_that_are_no_list_are_refused(self, targets):
        with pytest.raises(WorkflowError, match="targets must be a list"):
            RAGraph().add_edge("a", lambda state: END, targets)

    def test_targets_are_refused_where_no_callable_chooses(self):
        with pytest.raises(WorkflowError, match="targets are what a callable may return"):
            RAGraph().add_edge("a", "b", ["b"])
