"""The embedder of a Heddle server as Haystack's: of a query, and of documents."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from haystack import Document, component, default_to_dict
from haystack.utils import Secret

from heddle.adapters.calls import aembed, embed
from heddle.adapters.haystack.engine_part import EnginePart
from heddle.adapters.values import EmbedCall, Embedded
from heddle.core.errors import InputError
from heddle.core.tasks import Priority

BATCH: Final = 64  # texts of one call: what comes in between waits no longer than for these


@component
class HeddleTextEmbedder(EnginePart):
    """Embeds a query with the embedder of a Heddle server.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        prefix: stands before each text, behind the model's own prompt for queries.
        suffix: stands behind each text.
        api_key: the key for a server by its address; None = that of HEDDLE_API_KEY.
        tenant: whose caches are used.
    """

    def __init__(
        self,
        engine: object,
        *,
        prefix: str = "",
        suffix: str = "",
        api_key: Secret | None = None,
        tenant: str = "",
    ) -> None:
        EnginePart.__init__(
            self, engine, api_key, tenant
        )  # Haystack makes the class anew: no super()
        self.prefix = prefix
        self.suffix = suffix

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    def run(self, text: str) -> dict[str, Any]:
        """Return a query's `embedding`, of length 1, and in `meta` its usage.

        Raises:
            InputError, ConfigError: it can't be embedded.
            HeddleError: it failed.
        """
        return _query(embed(self.called, self._call(text)))

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    async def run_async(self, text: str) -> dict[str, Any]:
        """Return a query's `embedding`, as `run` does."""
        return _query(await aembed(self.called, self._call(text)))

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says of the component.

        Raises:
            ConfigError: its engine is a server of this process.
        """
        return default_to_dict(self, **self.saved(), prefix=self.prefix, suffix=self.suffix)

    def _call(self, text: str) -> EmbedCall:
        if not isinstance(text, str):
            raise InputError(
                f"text must be a text, got {type(text).__name__}: for documents there is "
                "HeddleDocumentEmbedder",
                param="text",
            )
        whole = f"{self.prefix}{text}{self.suffix}"
        return EmbedCall([whole], role="query", priority=Priority.NORMAL)


@component
class HeddleDocumentEmbedder(EnginePart):
    """Embeds documents with the embedder of a Heddle server, behind what users wait for.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        meta_fields_to_embed: keys of a document's metadata whose values stand before its text.
        embedding_separator: stands between them.
        api_key: the key for a server by its address; None = that of HEDDLE_API_KEY.
        tenant: whose documents they are.
    """

    def __init__(
        self,
        engine: object,
        *,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        api_key: Secret | None = None,
        tenant: str = "",
    ) -> None:
        EnginePart.__init__(
            self, engine, api_key, tenant
        )  # Haystack makes the class anew: no super()
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Return `documents`, each with its embedding, and in `meta` their usage.

        Raises:
            InputError, ConfigError: they can't be embedded.
            HeddleError: it failed.
        """
        parts = [embed(self.called, call) for call in self._calls(documents)]
        return _embedded(documents, parts)

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """Return `documents`, as `run` does."""
        parts = [await aembed(self.called, call) for call in self._calls(documents)]
        return _embedded(documents, parts)

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says of the component.

        Raises:
            ConfigError: its engine is a server of this process.
        """
        return default_to_dict(
            self,
            **self.saved(),
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
        )

    def _calls(self, documents: list[Document]) -> Iterator[EmbedCall]:
        texts = [self._text(document) for document in documents]
        for start in range(0, len(texts), BATCH):
            yield EmbedCall(texts[start : start + BATCH], role="passage")

    def _text(self, document: Document) -> str:
        known = (document.meta.get(key) for key in self.meta_fields_to_embed)
        values = [str(value) for value in known if value is not None]
        return self.embedding_separator.join([*values, document.content or ""])


def _query(found: Embedded) -> dict[str, Any]:
    return {"embedding": found.vectors[0], "meta": _meta(found.tokens)}


def _embedded(documents: list[Document], parts: list[Embedded]) -> dict[str, Any]:
    vectors = [vector for part in parts for vector in part.vectors]
    pairs = zip(documents, vectors, strict=True)
    return {
        "documents": [replace(document, embedding=vector) for document, vector in pairs],
        "meta": _meta(sum(part.tokens for part in parts)),
    }


def _meta(tokens: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
