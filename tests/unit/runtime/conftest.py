"""Failures are what many of these tests cause: their log lines would bury a real one."""

import logging

import pytest

from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.fake_ports import Bench


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture(scope="session")
def oneshot():
    """Look something up, answer."""
    graph = RAGraph("oneshot")
    graph.add_retrieval("find", topk=2, output="docs")
    graph.add_generation("answer", "Notes: {docs}Question: {query}!")
    return graph.compile()


@pytest.fixture(scope="session")
def hyde():
    """Imagine, search with that, answer."""
    graph = RAGraph("hyde")
    graph.add_generation("imagine", "Imagine {query}.", output="idea")
    graph.add_retrieval("find", query="idea", topk=2)
    graph.add_generation("answer", "Answer {query} from {docs}.")
    return graph.compile()


@pytest.fixture(scope="session")
def search():
    """A single retrieval."""
    return RAGraph("search").add_retrieval("find", topk=2).compile()


@pytest.fixture(scope="session")
def draft():
    """A single generation."""
    return RAGraph("draft").add_generation("write", "Write {query}.").compile()


@pytest.fixture
def listing1():
    """Listing 1 of HedraRAG: one item of a list a turn."""
    graph = RAGraph("listing1")
    graph.add_generation(0, prompt="Decompose {input} into subquestions.", output="subquestion")
    graph.add_retrieval(1, topk=2, query="subquestion", output="docs")
    graph.add_generation(2, prompt="Answer {subquestion} using {docs}.")
    graph.add_edge(START, 0).add_edge(0, 1).add_edge(1, 2)
    graph.add_edge(2, lambda state: 1 if state.get("subquestion") else END)
    return graph.compile()
