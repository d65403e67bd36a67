"""`heddle.wrap` of a Haystack pipeline."""

from collections.abc import Mapping
from typing import Final

from haystack import Pipeline

from heddle.adapters.depths import depths
from heddle.adapters.engine import Engine, engine_of
from heddle.adapters.haystack.engine_part import EnginePart, key_of_environment
from heddle.adapters.haystack.held import held_parts
from heddle.adapters.haystack.parts import OPTIONS, PROMPT, Part, parts_of
from heddle.adapters.haystack.wrapped_pipeline import WrappedPipeline
from heddle.adapters.wrapping import Wrapping, engine_for, nothing_seen
from heddle.core.errors import ConfigError

WHAT: Final = "the pipeline"
OURS: Final = tuple(dict.fromkeys(OPTIONS.values()))
FIX: Final = (
    "put Heddle's components into it, or have Heddle stand in for others' with "
    f"{', '.join(f'{name}=True' for name in OURS)}"
)
# What Haystack calls for each component: a version without them can't be wrapped.
HOOKS: Final = ("_run_component", "_run_component_async")


def wrapped(program: object, engine: object = None, **options: object) -> WrappedPipeline:
    """Return a pipeline whose runs the engine knows as runs.

    Args:
        program: a `haystack.Pipeline`. It keeps its components and connections, and runs as before.
        engine: what stands in for others' components; None = the engine of Heddle's within.
        options: those of `heddle.wrap`; and `model`, `retriever`, `ranker` and `embedder`: True has
            Heddle stand in for others' components of that kind, and a component of Heddle's is the
            one that does. Retrievers then find documents of the engine's corpus.

    Raises:
        ConfigError: it is no pipeline, no component can call the engine, or an option is wrong.
    """
    if not isinstance(program, Pipeline):
        raise ConfigError(
            f"wrap: {type(program).__name__} is no haystack.Pipeline: give its pipeline"
        )
    if isinstance(program, WrappedPipeline):
        raise ConfigError("wrap: the pipeline is wrapped already: wrap the one that it was made of")
    if missing := [hook for hook in HOOKS if not hasattr(Pipeline, hook)]:
        raise ConfigError(
            f"wrap: this version of haystack-ai has no {missing[0]}: install 'heddle[haystack]'"
        )
    wanted = {name: options.pop(name) for name in OURS if name in options}
    own = _engines(program)
    parts = parts_of(program, lambda: engine_for(_named(engine), own, WHAT), wanted)
    calling = {name: part.primitives for name, part in parts.items() if part.primitives}
    steps = {name: len(set(calling.get(name, ())) - {PROMPT}) for name, _ in program.walk()}
    if not any(steps.values()):
        raise nothing_seen(WHAT, _looked_at(program, parts), FIX)
    edges = set(program.graph.edges())
    found = depths(steps, edges, steps)
    standing_in = {part.stand_in.called for part in parts.values() if part.stand_in is not None}
    engines = standing_in | set(own.values())
    return WrappedPipeline.of(program, parts, Wrapping.of(calling, found, options), engines)


def _named(engine: object) -> object:
    """Return an engine that is named by its address with the key that components would take."""
    if isinstance(engine, str):
        return engine_of(engine, api_key=key_of_environment().resolve_value() or "")
    return engine


def _engines(pipeline: Pipeline) -> dict[str, Engine]:
    """Return the engines of Heddle's components within a pipeline, by component."""
    found = {}
    for name, instance in pipeline.walk():
        ours = [instance] if isinstance(instance, EnginePart) else held_parts(instance)
        for number, one in enumerate(ours):
            found[f"{name}.{number}" if number else name] = one.called
    return found


def _looked_at(pipeline: Pipeline, parts: Mapping[str, Part]) -> dict[str, str]:
    """Return what each component is, in words."""
    return {
        name: f"{type(instance).__name__}{_words(parts.get(name))}"
        for name, instance in pipeline.walk()
    }


def _words(part: Part | None) -> str:
    return "" if part is None or part.kind is None else f", a {part.kind.value}"
