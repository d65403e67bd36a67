"""Models, retrievers and vector stores of others in whose place Heddle answers, in such runs."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Any, Final

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForLLMRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BaseModel

from heddle.adapters.langchain.chat import ChatHeddle, schema_form
from heddle.adapters.langchain.component import active_run
from heddle.adapters.langchain.retriever import HeddleRetriever
from heddle.core.errors import ConfigError

OWN_FIELDS: Final = ("max_tokens", "temperature", "top_p", "seed")
REDIRECTED: Final = "heddle_may_stand_in"
DEFAULT_K: Final = 4  # of LangChain's vector stores
PARSED: Final = "parsed"  # where OpenAI's client puts what an answer is read as
NOT_REPLACED: Final = (
    "similarity_search_with_score",
    "similarity_search_with_relevance_scores",
    "similarity_search_by_vector",
    "max_marginal_relevance_search",
    "max_marginal_relevance_search_by_vector",
)


def may_stand_in(owner: BaseChatModel | BaseRetriever | VectorStore) -> None:
    """Let a run have Heddle answer in an object's place; everywhere else it stays as it was.

    Of a model its temperature, top_p, seed, max_tokens and stop go along, of a vector store's
    retriever its `k` and `filter`, unless the stand-in was given another. In the place of a vector
    store it searches by similarity; what the store gives besides, such as scores, is refused then.

    Mutates: the object's class, which becomes one below its own, of the same name.

    Raises:
        ConfigError: it searches by a threshold or for variety, which Heddle doesn't.
    """
    if isinstance(owner, VectorStoreRetriever) and owner.search_type != "similarity":
        raise ConfigError(
            f"wrap: a retriever of search_type {owner.search_type!r} can't be replaced: use "
            "'similarity', or leave out retriever="
        )
    if REDIRECTED in type(owner).__dict__:
        return
    kind: Any = type(owner)
    if isinstance(owner, BaseChatModel):
        below = _model_class(kind)
    else:
        below = _store_class(kind) if isinstance(owner, VectorStore) else _retriever_class(kind)
    object.__setattr__(owner, "__class__", below)


def _stand_in(owner: object) -> Any:
    """Return the component of Heddle that answers in an object's place now; None = itself."""
    run = active_run()
    return None if run is None else run.stand_ins.get(id(owner))


@cache
def _model_class(kind: Any) -> Any:
    class Redirected(kind):  # type: ignore[misc, valid-type, unused-ignore]
        """A chat model in whose place Heddle's may answer."""

        # LangChain asks a class whether it streams, and this one always seems to.

        def _should_stream(self, *, async_api: bool, **given: Any) -> bool:
            if _stand_in(self) is None and not _streams(kind, is_async=async_api):
                return False
            does: bool = super()._should_stream(async_api=async_api, **given)
            return does

        def _should_use_protocol_streaming(self, *, async_api: bool, **given: Any) -> bool:
            if _stand_in(self) is None and not _streams(kind, is_async=async_api):
                return False
            does: bool = super()._should_use_protocol_streaming(async_api=async_api, **given)
            return does

        def _generate(
            self,
            messages: list[BaseMessage],
            stop: list[str] | None = None,
            run_manager: CallbackManagerForLLMRun | None = None,
            **kwargs: Any,
        ) -> ChatResult:
            target: ChatHeddle | None = _stand_in(self)
            if target is None:
                own = super()._generate
                found: ChatResult = own(messages, stop=stop, **_managed(own, run_manager), **kwargs)
                return found
            given, form = _asked(self, target, kwargs)
            result = target._generate(messages, _stop(self, target, stop), run_manager, **given)
            return _parsed(result, form)

        async def _agenerate(
            self,
            messages: list[BaseMessage],
            stop: list[str] | None = None,
            run_manager: AsyncCallbackManagerForLLMRun | None = None,
            **kwargs: Any,
        ) -> ChatResult:
            target: ChatHeddle | None = _stand_in(self)
            if target is None:
                own = super()._agenerate
                found: ChatResult = await own(
                    messages, stop=stop, **_managed(own, run_manager), **kwargs
                )
                return found
            given, form = _asked(self, target, kwargs)
            result = await target._agenerate(
                messages, _stop(self, target, stop), run_manager, **given
            )
            return _parsed(result, form)

        def _stream(
            self,
            messages: list[BaseMessage],
            stop: list[str] | None = None,
            run_manager: CallbackManagerForLLMRun | None = None,
            **kwargs: Any,
        ) -> Iterator[ChatGenerationChunk]:
            target: ChatHeddle | None = _stand_in(self)
            if target is None:
                yield from super()._stream(messages, stop=stop, **_given(run_manager), **kwargs)
                return
            given, form = _asked(self, target, kwargs)
            written = Written(form)
            for chunk in target._stream(messages, _stop(self, target, stop), run_manager, **given):
                yield written.taken(chunk)

        async def _astream(
            self,
            messages: list[BaseMessage],
            stop: list[str] | None = None,
            run_manager: AsyncCallbackManagerForLLMRun | None = None,
            **kwargs: Any,
        ) -> AsyncIterator[ChatGenerationChunk]:
            target: ChatHeddle | None = _stand_in(self)
            if target is None:
                theirs = super()._astream(messages, stop=stop, **_given(run_manager), **kwargs)
                async for chunk in theirs:
                    yield chunk
                return
            given, form = _asked(self, target, kwargs)
            written, own_stop = Written(form), _stop(self, target, stop)
            async for chunk in target._astream(messages, own_stop, run_manager, **given):
                yield written.taken(chunk)

    return _named_as(Redirected, kind)


@cache
def _retriever_class(kind: Any) -> Any:
    class Redirected(kind):  # type: ignore[misc, valid-type, unused-ignore]
        """A retriever in whose place Heddle's may answer."""

        def _get_relevant_documents(
            self,
            query: str,
            *,
            run_manager: CallbackManagerForRetrieverRun | None = None,
            **kwargs: Any,
        ) -> list[Document]:
            target: HeddleRetriever | None = _stand_in(self)
            if target is None:
                own = super()._get_relevant_documents
                taken = kwargs if kind._expects_other_args else {}
                found: list[Document] = own(query, **_managed(own, run_manager), **taken)
                return found
            given = {**_searching(_search_settings(self), target), **kwargs}
            return target._get_relevant_documents(query, run_manager=run_manager, **given)

        async def _aget_relevant_documents(
            self,
            query: str,
            *,
            run_manager: AsyncCallbackManagerForRetrieverRun | None = None,
            **kwargs: Any,
        ) -> list[Document]:
            target: HeddleRetriever | None = _stand_in(self)
            if target is None:
                own = super()._aget_relevant_documents
                taken = kwargs if kind._expects_other_args else {}
                found: list[Document] = await own(query, **_managed(own, run_manager), **taken)
                return found
            given = {**_searching(_search_settings(self), target), **kwargs}
            return await target._aget_relevant_documents(query, run_manager=run_manager, **given)

    return _named_as(Redirected, kind)


@cache
def _store_class(kind: Any) -> Any:
    class Redirected(kind):  # type: ignore[misc, valid-type, unused-ignore]
        """A vector store in whose place Heddle may search."""

        def similarity_search(self, query: str, *args: Any, **kwargs: Any) -> list[Document]:
            target: HeddleRetriever | None = _stand_in(self)
            if target is None:
                found: list[Document] = super().similarity_search(query, *args, **kwargs)
                return found
            said = _said(kind.similarity_search, (self, query, *args), kwargs)
            return target._get_relevant_documents(query, **{**_searching({}, target), **said})

        async def asimilarity_search(self, query: str, *args: Any, **kwargs: Any) -> list[Document]:
            target: HeddleRetriever | None = _stand_in(self)
            if target is None:
                found: list[Document] = await super().asimilarity_search(query, *args, **kwargs)
                return found
            said = _said(kind.asimilarity_search, (self, query, *args), kwargs)
            return await target._aget_relevant_documents(
                query, **{**_searching({}, target), **said}
            )

    for name in NOT_REPLACED:
        for method in (name, f"a{name}"):
            setattr(Redirected, method, _refused(kind, method))
    return _named_as(Redirected, kind)


def _said(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a call of a store's search says besides store and query, by name."""
    bound = signature(method).bind(*args, **kwargs)
    said = dict(list(bound.arguments.items())[2:])
    for one in bound.signature.parameters.values():
        if one.kind is Parameter.VAR_KEYWORD:
            said.update(said.pop(one.name, {}))
    return said


def _refused(kind: Any, name: str) -> Callable[..., Any]:
    """Return a store's method that raises where Heddle searches in the store's place."""
    method = getattr(kind, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _stand_in(self) is not None:
            raise ConfigError(
                f"wrap: {kind.__name__}.{name} can't be replaced: use similarity_search, or leave "
                "out retriever="
            )
        return method(self, *args, **kwargs)

    return wraps(method)(call)


def _streams(kind: Any, *, is_async: bool) -> bool:
    """Whether a class of models writes piece by piece; asynchronous verbs fall back to sync ones.

    As LangChain judges it.
    """
    does = kind._stream is not BaseChatModel._stream
    return does or (is_async and kind._astream is not BaseChatModel._astream)


def _managed(method: Callable[..., Any], run_manager: object) -> dict[str, Any]:
    """Return the run manager as a keyword, for a method that takes one, as LangChain does."""
    return {"run_manager": run_manager} if "run_manager" in signature(method).parameters else {}


def _given(run_manager: object) -> dict[str, Any]:
    return {} if run_manager is None else {"run_manager": run_manager}


def _named_as(below: Any, kind: Any) -> Any:
    """Give a class the name of the one above it, which traces and messages show.

    Mutates: the class.
    """
    below.__name__, below.__qualname__ = kind.__name__, kind.__qualname__
    below.__module__ = kind.__module__
    setattr(below, REDIRECTED, True)
    return below


def _asked(
    model: BaseChatModel, target: ChatHeddle, kwargs: dict[str, Any]
) -> tuple[dict[str, Any], type[BaseModel] | None]:
    """Return what a call says with OpenAI's names, and the class that its answer is read as."""
    fields = (name for name in OWN_FIELDS if name not in target.model_fields_set)
    own = {name: getattr(model, name, None) for name in fields}
    given = {**{n: v for n, v in own.items() if v is not None}, **kwargs}
    form = given.get("response_format")
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        return given, None
    given["response_format"] = schema_form(form)
    return given, form


def _stop(model: BaseChatModel, target: ChatHeddle, stop: list[str] | None) -> list[str] | None:
    """Return a call's own stops, those that its stand-in was given, or those of the model."""
    if stop or "stop" in target.model_fields_set:
        return stop
    own = getattr(model, "stop", None) or getattr(model, "stop_sequences", None)
    return [own] if isinstance(own, str) else own


def _parsed(result: ChatResult, form: type[BaseModel] | None) -> ChatResult:
    """Put what an answer is read as where OpenAI's own client puts it.

    Mutates: the message.
    """
    if form is not None:
        message = result.generations[0].message
        message.additional_kwargs[PARSED] = form.model_validate_json(str(message.content))
    return result


@dataclass(slots=True)
class Written:
    """An answer in chunks, the last of which says what the whole is read as.

    Args:
        form: the class that it is read as; None = it stays text.

    Mutates: `text` grows, and the last chunk's message.
    """

    form: type[BaseModel] | None
    text: str = ""

    def taken(self, chunk: ChatGenerationChunk) -> ChatGenerationChunk:
        """Take a chunk in, and return it."""
        self.text += str(chunk.message.content)
        is_last = getattr(chunk.message, "chunk_position", None) == "last"
        if self.form is not None and is_last:
            parsed = self.form.model_validate_json(self.text)
            chunk.message.additional_kwargs[PARSED] = parsed
        return chunk


def _search_settings(retriever: BaseRetriever) -> Mapping[str, Any] | None:
    """Return what a vector store's retriever searches with; None = it is of another kind."""
    return retriever.search_kwargs if isinstance(retriever, VectorStoreRetriever) else None


def _searching(own: Mapping[str, Any] | None, target: HeddleRetriever) -> dict[str, Any]:
    """Return what a vector store would search with, where its stand-in doesn't say.

    Args:
        own: its settings; None = it is no vector store, whose defaults would hold.
        target: the stand-in.
    """
    if own is None:
        return {}
    given = target.model_fields_set
    count = {} if "k" in given else {"k": own.get("k", DEFAULT_K)}
    filters = {"filter": own["filter"]} if own.get("filter") and "where" not in given else {}
    return {**count, **filters}
