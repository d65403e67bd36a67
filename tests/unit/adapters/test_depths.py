"""Depths: the longest way to the end, a cycle once, in graphs of any size."""

from itertools import pairwise

from heddle.adapters.depths import depths

RAG = ["retrieve", "grade", "rewrite", "generate", "check"]
EDGES = [
    ("retrieve", "grade"),
    ("grade", "generate"),
    ("grade", "rewrite"),
    ("rewrite", "retrieve"),
    ("generate", "check"),
]


def test_a_cycle_counts_once_and_what_follows_it_is_behind_all_of_it():
    found = depths(RAG, EDGES, {"check": 0})
    assert found == {"retrieve": 3, "grade": 3, "rewrite": 3, "generate": 0, "check": 0}


def test_the_longest_way_counts():
    edges = [("a", "z"), ("a", "b"), ("b", "z"), ("a", "a"), ("a", "unknown")]
    assert depths("abz", edges, {"b": 2}) == {"a": 3, "b": 1, "z": 0}


def test_a_long_chain_needs_no_deep_stack():
    nodes = [str(n) for n in range(5_000)]
    edges = list(pairwise(nodes))
    found = depths(nodes, edges, {})
    assert (found["0"], found["4999"]) == (4_999, 0)
