"""Which components of a pipeline call the engine, and what runs in the place of others' ones."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from haystack import Pipeline

from heddle.adapters.calls import KINDS
from heddle.adapters.engine import Engine
from heddle.adapters.haystack.chat_generator import HeddleChatGenerator
from heddle.adapters.haystack.embedders import HeddleDocumentEmbedder, HeddleTextEmbedder
from heddle.adapters.haystack.engine_part import EnginePart
from heddle.adapters.haystack.held import held_parts
from heddle.adapters.haystack.part_kind import PartKind, kind_of
from heddle.adapters.haystack.ranker import HeddleRanker
from heddle.adapters.haystack.retriever import HeddleRetriever
from heddle.core.errors import ConfigError, InputError
from heddle.workflow.ragraph import DEFAULT_TOPK

MODEL: Final = "model"
RETRIEVER: Final = "retriever"
RANKER: Final = "ranker"
EMBEDDER: Final = "embedder"
PROMPT: Final = "prompt"  # no step of an engine: its text is what is prefilled
# The option of `wrap` that puts Heddle in the place of a component.
OPTIONS: Final[Mapping[PartKind, str]] = {
    PartKind.MODEL: MODEL,
    PartKind.RETRIEVER: RETRIEVER,
    PartKind.VECTOR_RETRIEVER: RETRIEVER,
    PartKind.RANKER: RANKER,
    PartKind.TEXT_EMBEDDER: EMBEDDER,
    PartKind.DOCUMENT_EMBEDDER: EMBEDDER,
}
PRIMITIVES: Final[Mapping[PartKind, tuple[str, ...]]] = {
    PartKind.MODEL: KINDS["chat"],
    PartKind.RETRIEVER: KINDS["search"],
    PartKind.VECTOR_RETRIEVER: KINDS["search"],
    PartKind.RANKER: KINDS["rerank"],
    PartKind.TEXT_EMBEDDER: KINDS["embed"],
    PartKind.DOCUMENT_EMBEDDER: KINDS["embed"],
    PartKind.PROMPT: (PROMPT,),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A component that is known: by its sockets, or by the components of Heddle's that it holds.

    Args:
        kind: what its sockets say that it is; None = nothing.
        primitives: the kinds of primitives that it is; none = it is a tool.
        stand_in: the component of Heddle's that runs in its place; None = it runs itself.
    """

    kind: PartKind | None
    primitives: tuple[str, ...] = ()
    stand_in: Any = None

    def fitted(self, name: str, inputs: Mapping[str, Any], sockets: Mapping[str, Any]) -> Any:
        """Return the inputs of the stand-in: those of the component that ask for something.

        Raises:
            InputError: one asks for what the stand-in can't do.
        """
        if self.stand_in is None or self.kind is None:
            return inputs
        taken = inspect.signature(self.stand_in.run).parameters
        for socket, value in inputs.items():
            is_asked = value is not None and value is not _default(sockets, socket)
            if socket not in taken and is_asked:
                raise InputError(
                    f"component {name!r}: {type(self.stand_in).__name__} has no input {socket!r}: "
                    f"leave it out, or wrap without {OPTIONS[self.kind]}=",
                    param=socket,
                )
        return {socket: value for socket, value in inputs.items() if socket in taken}


def parts_of(
    pipeline: Pipeline, engine: Callable[[], Engine], wanted: Mapping[str, object]
) -> Mapping[str, Part]:
    """Return the components that are known; a component that holds ours keeps running itself.

    Args:
        pipeline: theirs.
        engine: returns the engine, where a stand-in needs one.
        wanted: for an option of `OPTIONS` True, or the component that stands in.

    Raises:
        ConfigError: there is no engine, an option finds no component, or its value can't stand in
            for one.
    """
    found = {}
    for name, node in pipeline.graph.nodes(data=True):
        instance = node["instance"]
        kind = kind_of(instance, node["input_sockets"], node["output_sockets"])
        option = None if kind is None else OPTIONS.get(kind)
        if kind is not None and (isinstance(instance, EnginePart) or kind is PartKind.PROMPT):
            found[name] = Part(kind, PRIMITIVES[kind])
        elif kind is not None and option is not None and wanted.get(option):
            stand_in = _stand_in(name, kind, instance, engine, wanted[option])
            found[name] = Part(kind, PRIMITIVES[kind], stand_in)
        else:
            inner = (PRIMITIVES[_OURS[type(one)]] for one in held_parts(instance))
            kinds = tuple(dict.fromkeys(one for several in inner for one in several))
            if kind is not None or kinds:
                found[name] = Part(kind, kinds)
    _check_all_used(wanted, found)
    return found


def _check_all_used(wanted: Mapping[str, object], parts: Mapping[str, Part]) -> None:
    """Refuse an option that finds no component."""
    kinds = {part.kind for part in parts.values()}
    known = {option for kind, option in OPTIONS.items() if kind in kinds}
    for option, given in wanted.items():
        if given and option not in known:
            raise ConfigError(
                f"wrap: {option}= finds no component: none has the sockets of a {option} "
                "(docs/guide/adapters.md#haystack); leave it out, or put Heddle's into the pipeline"
            )


def _stand_in(
    name: str, kind: PartKind, instance: object, engine: Callable[[], Engine], given: object
) -> EnginePart:
    if given is True:
        return _MADE[kind](instance, engine())
    made = _KINDS_OF_STAND_INS[kind]
    if not isinstance(given, made):
        raise ConfigError(
            f"wrap: {OPTIONS[kind]} must be True or a {made.__name__}, got {given!r:.60}, and "
            f"component {name!r} is a {kind.value}"
        )
    return given


def _chat_generator(instance: Any, engine: Engine) -> EnginePart:
    return HeddleChatGenerator(
        engine,
        generation_kwargs=getattr(instance, "generation_kwargs", None),
        streaming_callback=getattr(instance, "streaming_callback", None),
        tools=getattr(instance, "tools", None),
    )


def _retriever(instance: Any, engine: Engine) -> EnginePart:
    return HeddleRetriever(
        engine,
        filters=getattr(instance, "filters", None),
        top_k=getattr(instance, "top_k", None) or DEFAULT_TOPK,
        hybrid="bm25" in type(instance).__name__.lower(),
    )


def _ranker(instance: Any, engine: Engine) -> EnginePart:
    return HeddleRanker(engine, top_k=getattr(instance, "top_k", None))


def _text_embedder(instance: Any, engine: Engine) -> EnginePart:
    return HeddleTextEmbedder(
        engine, prefix=getattr(instance, "prefix", ""), suffix=getattr(instance, "suffix", "")
    )


def _document_embedder(instance: Any, engine: Engine) -> EnginePart:
    return HeddleDocumentEmbedder(
        engine,
        meta_fields_to_embed=getattr(instance, "meta_fields_to_embed", None),
        embedding_separator=getattr(instance, "embedding_separator", "\n"),
    )


def _default(sockets: Mapping[str, Any], name: str) -> object:
    return sockets[name].default_value if name in sockets else None


_MADE: Final[Mapping[PartKind, Callable[[Any, Engine], EnginePart]]] = {
    PartKind.MODEL: _chat_generator,
    PartKind.RETRIEVER: _retriever,
    PartKind.VECTOR_RETRIEVER: _retriever,
    PartKind.RANKER: _ranker,
    PartKind.TEXT_EMBEDDER: _text_embedder,
    PartKind.DOCUMENT_EMBEDDER: _document_embedder,
}
_OURS: Final[Mapping[type, PartKind]] = {
    HeddleChatGenerator: PartKind.MODEL,
    HeddleRetriever: PartKind.RETRIEVER,
    HeddleRanker: PartKind.RANKER,
    HeddleTextEmbedder: PartKind.TEXT_EMBEDDER,
    HeddleDocumentEmbedder: PartKind.DOCUMENT_EMBEDDER,
}
_KINDS_OF_STAND_INS: Final[Mapping[PartKind, type[EnginePart]]] = {
    PartKind.MODEL: HeddleChatGenerator,
    PartKind.RETRIEVER: HeddleRetriever,
    PartKind.VECTOR_RETRIEVER: HeddleRetriever,
    PartKind.RANKER: HeddleRanker,
    PartKind.TEXT_EMBEDDER: HeddleTextEmbedder,
    PartKind.DOCUMENT_EMBEDDER: HeddleDocumentEmbedder,
}
