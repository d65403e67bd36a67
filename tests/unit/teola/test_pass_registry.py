"""Passes are registered by name, the newest of a name counts."""

import pytest

from heddle.core.errors import ConfigError
from heddle.graph.pgraph import PGraph
from heddle.passes.runner import GraphPass
from heddle.teola.pass_registry import PassRegistry

GRAPH = PGraph((), frozenset())


def test_a_function_becomes_a_pass_of_its_name():
    registry = PassRegistry()
    registry.register("first", lambda graph: None)
    registry.register("second", lambda graph: None)
    registry.register("first", lambda graph: graph)
    first, second = registry.passes.values()
    assert (first.name, second.name) == ("first", "second")
    assert GraphPass in type(first).__mro__
    assert first.apply(GRAPH) is GRAPH
    assert second.apply(GRAPH) is None


def test_what_is_no_function_is_refused():
    with pytest.raises(ConfigError, match="'first' must be a function"):
        PassRegistry().register("first", "fast")
