"""The parts of a query engine that call the engine, and what runs in the place of others' ones."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from types import MethodType
from typing import Final

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.prompt_helper import ChatPromptHelper, PromptHelper
from llama_index.core.llms.llm import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer

from heddle.adapters.calls import KINDS
from heddle.adapters.engine import Engine
from heddle.adapters.llamaindex.embedding import HeddleEmbedding
from heddle.adapters.llamaindex.llm import HeddleLLM
from heddle.adapters.llamaindex.reranker import HeddleReranker
from heddle.adapters.llamaindex.retriever import HeddleRetriever
from heddle.adapters.wrapping import stand_in_of
from heddle.core.errors import ConfigError
from heddle.workflow.ragraph import DEFAULT_TOPK

MODEL: Final = "model"
RETRIEVER: Final = "retriever"
RANKER: Final = "ranker"
WRITING: Final = ("max_tokens", "temperature", "top_p", "seed", "stop", "system_prompt")
OPTIONS: Final = (MODEL, RETRIEVER, RANKER)
SYNTHESIZER: Final = "synthesizer"
PROMPT: Final = "prompt"  # no step of an engine: its text is what is prefilled


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs in a wrapped query engine.

    Args:
        retriever: finds nodes.
        postprocessors: what each set of nodes goes through, in order, by name.
        synthesizer: has the LLM write the response.
        primitives: the kinds of primitives of each part that calls the engine, by name.
    """

    retriever: BaseRetriever
    postprocessors: Mapping[str, BaseNodePostprocessor]
    synthesizer: BaseSynthesizer
    primitives: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The parts in the order in which they run."""
        return (RETRIEVER, *self.postprocessors, SYNTHESIZER)


def engines_of(program: RetrieverQueryEngine) -> dict[str, Engine]:
    """Return the engines of the Heddle components within a query engine, by their part."""
    components = {
        RETRIEVER: program._retriever,
        SYNTHESIZER: program._response_synthesizer._llm,
        **_named(program._node_postprocessors),
    }
    ours = HeddleRetriever, HeddleLLM, HeddleReranker
    return {name: one.called for name, one in components.items() if isinstance(one, ours)}


def parts_of(
    program: RetrieverQueryEngine, engine: Callable[[], Engine], wanted: Mapping[str, object]
) -> Parts:
    """Return what is to run in a query engine; the engine stays as it is.

    Args:
        program: the query engine.
        engine: returns the engine, where a stand-in needs one.
        wanted: for an option of `OPTIONS` True, or the component that stands in.

    Raises:
        ConfigError: there is no engine, an option finds no component, or its value can't stand in
            for one.
    """
    retriever = _retriever(program._retriever, engine, wanted.get(RETRIEVER))
    synthesizer = _synthesizer(program._response_synthesizer, engine, wanted.get(MODEL))
    postprocessors = {
        name: _postprocessor(one, engine, wanted.get(RANKER))
        for name, one in _named(program._node_postprocessors).items()
    }
    rankers = [one for one in postprocessors.values() if isinstance(one, HeddleReranker)]
    if wanted.get(RANKER) and not rankers:
        raise ConfigError(
            f"wrap: {RANKER}= finds no postprocessor with 'rerank' in its name: leave it out, or "
            "give the query engine a HeddleReranker"
        )
    kinds = {
        RETRIEVER: _retriever_kinds(retriever),
        SYNTHESIZER: (PROMPT, *KINDS["chat"]) if isinstance(synthesizer._llm, HeddleLLM) else (),
        **{
            name: KINDS["rerank"] if isinstance(one, HeddleReranker) else ()
            for name, one in postprocessors.items()
        },
    }
    found = {name: kinds_of for name, kinds_of in kinds.items() if kinds_of}
    return Parts(retriever, postprocessors, synthesizer, found)


def _named(postprocessors: list[BaseNodePostprocessor]) -> dict[str, BaseNodePostprocessor]:
    return {f"postprocessor_{n}": one for n, one in enumerate(postprocessors, start=1)}


def _retriever(own: BaseRetriever, engine: Callable[[], Engine], wanted: object) -> BaseRetriever:
    if not wanted or isinstance(own, HeddleRetriever):
        return own
    if wanted is True:
        return HeddleRetriever(
            engine(),
            similarity_top_k=getattr(own, "similarity_top_k", DEFAULT_TOPK),
            filters=getattr(own, "_filters", None),
            callback_manager=own.callback_manager,
        )
    return stand_in_of(wanted, HeddleRetriever, RETRIEVER)


def _synthesizer(
    own: BaseSynthesizer, engine: Callable[[], Engine], wanted: object
) -> BaseSynthesizer:
    if not wanted or isinstance(own._llm, HeddleLLM):
        return own
    llm = (
        _writing_as(own._llm, engine()) if wanted is True else stand_in_of(wanted, HeddleLLM, MODEL)
    )
    made = copy(own)
    made._llm = llm
    if wanted is not True:  # which may have another context
        made._prompt_helper = PromptHelper.from_llm_metadata(llm.metadata)
        made._chat_prompt_helper = ChatPromptHelper.from_llm_metadata(llm.metadata)
    for name, value in vars(own).items():  # methods that it keeps are its own, with its own LLM
        if isinstance(value, MethodType) and value.__self__ is own:
            setattr(made, name, MethodType(value.__func__, made))
    return made


def _writing_as(own: LLM, engine: Engine) -> HeddleLLM:
    """Return an LLM of the engine that writes as another was to, as far as its fields say."""
    others = getattr(own, "additional_kwargs", None) or {}
    given = {name: getattr(own, name, None) for name in WRITING}
    known = {name: others.get(name) if one is None else one for name, one in given.items()}
    if isinstance(known["stop"], str):  # OpenAI takes one text as well
        known["stop"] = [known["stop"]]
    asked = {name: one for name, one in known.items() if one is not None}
    return HeddleLLM(engine=engine, context_window=own.metadata.context_window, **asked)


def _postprocessor(
    own: BaseNodePostprocessor, engine: Callable[[], Engine], wanted: object
) -> BaseNodePostprocessor:
    if not wanted or isinstance(own, HeddleReranker) or "rerank" not in own.class_name().lower():
        return own
    if wanted is True:
        return HeddleReranker(engine=engine(), top_n=getattr(own, "top_n", None))
    return stand_in_of(wanted, HeddleReranker, RANKER)


def _retriever_kinds(retriever: BaseRetriever) -> tuple[str, ...]:
    if isinstance(retriever, HeddleRetriever):
        return KINDS["search"]
    embeds = isinstance(getattr(retriever, "_embed_model", None), HeddleEmbedding)
    return KINDS["embed"] if embeds else ()
