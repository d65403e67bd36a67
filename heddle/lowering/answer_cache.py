"""An answer cache: a Lookup, before it an Embedding, after it searches that may run again. (ADR 44)

A Lookup stays open until the searches that an answer rests on have run again.
"""

from collections.abc import Sequence
from dataclasses import replace

from heddle.core.payloads import TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import PGraph, outside_reads
from heddle.graph.primitive import EmbedConfig, LookupConfig, Primitive, Read, SearchConfig
from heddle.lowering.scope import Scope, input_key
from heddle.workflow.nodes import AnswerCacheNode
from heddle.workflow.template import QUESTION


def lower_answer_cache(node: AnswerCacheNode, scope: Scope) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of an answer cache, and the key its slot gets."""
    turn, name = scope.turn_of(node.id), str(node.id)
    question, output = input_key(QUESTION), f"{node.output}@{turn}"
    is_embedded = node.similarity is not None and not node.unfit
    vectors = f"{name}.vectors@{turn}" if is_embedded else None
    lookup = Primitive(
        name=f"{name}.lookup@{turn}",
        kind=PrimitiveKind.LOOKUP,
        node=name,
        reads=(question,) if vectors is None else (question, vectors),
        writes=(output,),
        config=LookupConfig(question, vectors, node.similarity, node.unfit),
    )
    if vectors is None:
        return (lookup,), output
    embed = Primitive(
        name=f"{name}.embedding@{turn}",
        kind=PrimitiveKind.EMBEDDING,
        node=name,
        reads=(question,),
        writes=(vectors,),
        config=EmbedConfig((Read(question),), TextRole.QUERY),
    )
    return (embed, lookup), output


def lower_checks(lookup: Primitive, searches: Sequence[SearchConfig], depth: int) -> PGraph:
    """Return searches that a kept answer rests on, to be run again for a Lookup at depth `depth`.

    Search i reads its vectors, and its words where it has some, from keys of `check_key`.
    """
    primitives = tuple(_check(lookup, number, search) for number, search in enumerate(searches))
    tail = {primitive.name: depth + 1 for primitive in primitives}
    return PGraph(primitives, frozenset(), outside_reads(primitives), tail)


def check_key(lookup: Primitive, what: str, number: int) -> str:
    """Return the key of the `vectors`, `words` or `hits` of a search that is run again."""
    return f"{lookup.node}.{what}.{number}@{lookup.turn}"


def _check(lookup: Primitive, number: int, search: SearchConfig) -> Primitive:
    vectors, words = (check_key(lookup, what, number) for what in ("vectors", "words"))
    parts = (Read(words),) if search.words else ()
    return Primitive(
        name=f"{lookup.node}.searching.{number}@{lookup.turn}",
        kind=PrimitiveKind.SEARCHING,
        node=lookup.node,
        reads=(vectors, *(part.key for part in parts)),
        writes=(check_key(lookup, "hits", number),),
        config=replace(search, vectors=vectors, words=parts, while_decoding=False),
    )
