"""`heddle.wrap` of a query engine of LlamaIndex."""

from itertools import pairwise
from typing import Final

from llama_index.core.query_engine import RetrieverQueryEngine

from heddle.adapters.depths import depths
from heddle.adapters.llamaindex.parts import (
    OPTIONS,
    PROMPT,
    SYNTHESIZER,
    Parts,
    engines_of,
    parts_of,
)
from heddle.adapters.llamaindex.wrapped_query_engine import WrappedQueryEngine
from heddle.adapters.wrapping import Wrapping, engine_for, nothing_seen
from heddle.core.errors import ConfigError

WHAT: Final = "the query engine"
FIX: Final = (
    "build it of Heddle's components, or have Heddle stand in for others' with "
    f"{', '.join(f'{name}=True' for name in OPTIONS)}"
)


def wrapped(program: object, engine: object = None, **options: object) -> WrappedQueryEngine:
    """Return a query engine whose queries the engine knows as runs.

    Args:
        program: a `RetrieverQueryEngine`, such as `index.as_query_engine()`; it stays as it is.
        engine: what stands in for others' components; None = the engine of Heddle's within.
        options: those of `heddle.wrap`; and `model`, `retriever` and `ranker`: True has Heddle
            stand in for others' components of that kind, and a component of Heddle's is the one
            that does. A retriever then finds passages of the engine's corpus.

    Raises:
        ConfigError: it is no such engine, no part of it can call Heddle's, or an option is wrong.
    """
    if not isinstance(program, RetrieverQueryEngine):
        raise ConfigError(
            f"wrap: {type(program).__name__} is no RetrieverQueryEngine: give what "
            "index.as_query_engine() returns, and put Heddle's components into other programs"
        )
    if isinstance(program, WrappedQueryEngine):
        raise ConfigError("wrap: it is wrapped already: wrap the one that it was made of")
    wanted: dict[str, object] = {name: options.pop(name) for name in OPTIONS if name in options}
    own = engines_of(program)
    parts = parts_of(program, lambda: engine_for(engine, own, WHAT), wanted)
    if not parts.primitives:
        raise nothing_seen(WHAT, _looked_at(parts), FIX)
    steps = {n: len(set(parts.primitives.get(n, ())) - {PROMPT}) for n in parts.names}
    found = depths(parts.names, tuple(pairwise(parts.names)), steps)
    return WrappedQueryEngine.of(program, parts, Wrapping.of(parts.primitives, found, options))


def _looked_at(parts: Parts) -> dict[str, str]:
    components = (parts.retriever, *parts.postprocessors.values(), parts.synthesizer)
    words = {n: type(one).__name__ for n, one in zip(parts.names, components, strict=True)}
    return {
        **words,
        SYNTHESIZER: f"{words[SYNTHESIZER]} with {type(parts.synthesizer._llm).__name__}",
    }
