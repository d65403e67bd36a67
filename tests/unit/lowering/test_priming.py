"""Priming lowers to a Searching and a Priming, or to a Priming alone."""

from heddle.app.priming.request import NO_NEIGHBOURS, NeighboursWanted, priming_workflow
from heddle.core.kv_reuse import PrimedWith
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind
from heddle.graph.primitive import PrimeConfig, SearchConfig
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope


def primitives(neighbours_max, primed_with=PrimedWith.PRECEDING):
    workflow = priming_workflow(NeighboursWanted(neighbours_max, primed_with), 41)
    scope = initial_scope(dict.fromkeys(workflow.inputs, ""))
    region = lower_region(workflow, workflow.entries, scope)
    verify(region.graph)
    return region.graph


def test_neighbours_are_what_precedes_and_what_its_own_vector_finds():
    graph = primitives(10)
    search, prime = graph.primitives
    assert (search.kind, prime.kind) == (PrimitiveKind.SEARCHING, PrimitiveKind.PRIMING)
    assert search.config == SearchConfig("vectors@input", 41, None)
    assert isinstance(prime.config, PrimeConfig)
    assert prime.config.passage == "passage@input"
    assert prime.config.near == ("before@input", "prime.hits@0")
    assert prime.config.neighbours_max == 10
    assert Edge(search.name, prime.name, EdgeKind.DATA) in graph.edges


def test_the_nearest_alone_are_only_what_its_own_vector_finds():
    workflow = priming_workflow(NeighboursWanted(10, PrimedWith.NEAREST), 41)
    assert workflow.inputs == {"passage", "vectors"}
    _, prime = primitives(10, PrimedWith.NEAREST).primitives
    assert isinstance(prime.config, PrimeConfig)
    assert prime.config.near == ("prime.hits@0",)
    assert prime.config.primed_with is PrimedWith.NEAREST


def test_without_neighbours_nothing_is_searched_for():
    workflow = priming_workflow(NO_NEIGHBOURS, 1)
    assert workflow.inputs == {"passage"}
    [prime] = primitives(0).primitives
    assert isinstance(prime.config, PrimeConfig)
    assert prime.config.near == ()
    assert prime.reads == ("passage@input",)
