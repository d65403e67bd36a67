"""Values that a workflow's builder refuses, in words."""

from functools import partial

import numpy as np
import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.function import as_workflow
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


def with_generation(**options):
    return RAGraph().add_generation("a", "{query}", **options)


def with_retrieval(**options):
    return RAGraph().add_retrieval("r", **options)


def with_extraction(**options):
    return with_retrieval().add_extraction("x", **options)


def with_tool(**options):
    return RAGraph().add_tool("t", len, ["query"], "found", **options)


def with_cache(**options):
    return with_generation().add_answer_cache(**options)


def of_steps(max_steps):
    return RAGraph("g", max_steps=max_steps).add_retrieval("r").compile()


def function_of_steps(max_steps):
    return as_workflow(fetched, max_steps=max_steps)


class TestNumbers:
    @pytest.mark.parametrize("value", [2.5, "5", True, float("nan")])
    @pytest.mark.parametrize(
        ("make", "name"),
        [
            (with_generation, "max_tokens"),
            (with_generation, "top_k"),
            (with_generation, "seed"),
            (partial(with_generation, retrieve_below=0.5), "retrievals_max"),
            (partial(with_generation, retrieve_below=0.5), "added_max"),
            (with_generation, "retrieve_every"),
            (with_retrieval, "topk"),
            (with_retrieval, "nprobe"),
            (with_retrieval, "topm"),
            (with_retrieval, "rerank"),
            (with_extraction, "quotes_max"),
            (with_tool, "batch_max"),
            (of_steps, "max_steps"),
            (function_of_steps, "max_steps"),
        ],
    )
    def test_what_is_no_whole_number_is_refused_by_name(self, make, name, value):
        with pytest.raises(WorkflowError, match=rf"{name}(?=.*whole number).*{value!r}"):
            make(**{name: value})

    @pytest.mark.parametrize("value", ["0.5", True, float("nan")])
    @pytest.mark.parametrize(
        ("make", "name"),
        [
            (with_generation, "temperature"),
            (with_generation, "top_p"),
            (with_generation, "retrieve_below"),
            (with_tool, "timeout_s"),
            (with_cache, "similarity"),
        ],
    )
    def test_what_is_no_finite_number_is_refused_by_name(self, make, name, value):
        with pytest.raises(WorkflowError, match=rf"{name}(?=.*number).*{value!r}"):
            make(**{name: value})

    def test_a_seed_is_0_or_more(self):
        with pytest.raises(WorkflowError, match="seed must be at least 0, got -1"):
            with_generation(seed=-1)

    def test_numbers_of_numpy_and_no_timeout_are_taken(self):
        assert with_retrieval(topk=np.int64(3)).compile().nodes["r"].topk == 3
        assert with_generation(temperature=np.float32(0.5), seed=np.int64(1)).compile()
        assert with_tool(timeout_s=float("inf")).compile()

    def test_a_system_text_that_is_none_is_refused(self):
        with pytest.raises(WorkflowError, match="system must be a text, got 5"):
            with_generation(system=5)


class TestLists:
    def test_a_text_is_refused_as_the_inputs_of_a_graph(self):
        with pytest.raises(WorkflowError, match=r"workflow 'g': inputs must be a list.*'style'"):
            RAGraph("g", "style").add_retrieval("r").compile()

    def test_a_text_is_refused_as_the_inputs_of_a_tool(self):
        with pytest.raises(WorkflowError, match=r"tool node 't': inputs must be a list.*'query'"):
            RAGraph().add_tool("t", len, "query", "found")

    def test_a_text_is_refused_as_the_slots_of_a_join(self):
        with pytest.raises(WorkflowError, match=r"join node 'j': slots must be a list.*'docs'"):
            RAGraph().add_join("j", "docs", "all")


class TestRoles:
    def test_two_slots_that_a_model_s_own_prompt_can_not_tell_apart_are_refused(self):
        with pytest.raises(WorkflowError, match=r"{docs}, {docs_2}.*one list"):
            with_generation_of("{docs}{docs_2}Question: {query}")
        with pytest.raises(WorkflowError, match=r"{docs.0:1.}, {docs.2:.}.*one list"):
            with_generation_of("{docs[0:1]}{docs[2:]}Question: {query}")

    def test_a_slot_may_be_shown_twice_in_a_prompt_of_a_role(self):
        assert with_generation_of("{query}\n\n{docs_2}Question: {query}").nodes


def with_generation_of(prompt):
    return RAGraph().add_generation("a", prompt, role="answer")
