"""verify() refuses each documented fault, and drawing is stable."""

from dataclasses import replace

import pytest

from heddle.core.errors import InternalError
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import Edge, EdgeKind, PGraph, depths, topological_order
from heddle.graph.primitive import EmbedConfig, Primitive, Read
from heddle.graph.render import render_mermaid, render_text
from heddle.graph.verify import verify


def primitive(name: str, reads: tuple[str, ...] = ()) -> Primitive:
    config = EmbedConfig(tuple(Read(key) for key in reads))
    return Primitive(name, PrimitiveKind.EMBEDDING, name, reads, (f"{name}.out",), config)


def chain() -> PGraph:
    parts = (primitive("a"), primitive("b", ("a.out",)), primitive("c", ("b.out",)))
    edges = {Edge("a", "b", EdgeKind.DATA), Edge("b", "c", EdgeKind.DATA)}
    return PGraph(parts, frozenset(edges))


def test_a_good_graph_passes() -> None:
    verify(chain())
    assert topological_order(chain()) == ("a", "b", "c")
    assert depths(chain()) == {"a": 2, "b": 1, "c": 0}


def test_tail_deepens_everything_before_it() -> None:
    assert depths(replace(chain(), tail={"c": 4})) == {"a": 6, "b": 5, "c": 4}


@pytest.mark.parametrize(
    ("word", "broken"),
    [
        ("twice", replace(chain(), primitives=(*chain().primitives, primitive("a")))),
        ("dangling", chain().with_edges([*chain().edges, Edge("a", "x", EdgeKind.ORDER)])),
        ("cycle", chain().with_edges([*chain().edges, Edge("c", "a", EdgeKind.ORDER)])),
        ("data edge", chain().with_edges([Edge("a", "b", EdgeKind.DATA)])),
        ("nothing writes", PGraph((primitive("z", ("ghost",)),), frozenset())),
        ("written twice", replace(chain(), inputs=frozenset({"a.out"}))),
    ],
)
def test_a_broken_graph_is_caught(word: str, broken: PGraph) -> None:
    with pytest.raises(InternalError, match=word):
        verify(broken)


def test_an_input_needs_no_edge() -> None:
    verify(PGraph((primitive("z", ("given",)),), frozenset(), frozenset({"given"})))


def test_text_and_mermaid_are_stable() -> None:
    assert render_text(chain()) == "a  depth 2\nb  depth 1  <- a (data)\nc  depth 0  <- b (data)"
    mermaid = render_mermaid(chain())
    assert mermaid.splitlines()[0] == "flowchart LR"
    assert "    p0 --> p1" in mermaid
