"""From a ready primitive and its request's store to the payload an engine gets."""

from typing import Final, NamedTuple

import numpy as np

from heddle.core.errors import InternalError
from heddle.core.kv_reuse import KvReuse
from heddle.core.passages import Passage, embedding_text
from heddle.core.payloads import (
    AskPayload,
    EmbedPayload,
    ExtractPayload,
    IngestPayload,
    Payload,
    PrefillPayload,
    PrimePayload,
    ReadingText,
    RerankPayload,
    SearchPayload,
    Segment,
    TextRole,
    ToolPayload,
)
from heddle.core.ports import Tokenizer
from heddle.core.results import Vectors
from heddle.core.search_scope import SearchScope, both
from heddle.core.system_text import PromptPart
from heddle.graph.primitive import (
    AskConfig,
    EmbedConfig,
    ExtractConfig,
    IngestConfig,
    OwnPassages,
    Part,
    PrefillConfig,
    PrimeConfig,
    Primitive,
    Read,
    RerankConfig,
    SearchConfig,
    ToolConfig,
)
from heddle.runtime.fence import fenced, fenced_question
from heddle.runtime.neighbours import neighbours_of
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.own_passages import nearest_own
from heddle.runtime.rank_fusion import ranked
from heddle.runtime.values import (
    as_passages,
    generated,
    passages_of,
    prompt_parts,
    query_texts,
    resolve,
    whole_text,
)

_ANY_PASSAGE: Final = Passage(0, "", "", "")


class Built(NamedTuple):
    """A payload, and the passages that it shows a model."""

    payload: Payload
    shown: tuple[Passage, ...] = ()


def build_payload(
    primitive: Primitive,
    store: ObjectStore,
    tokenizer: Tokenizer | None,
    scope: SearchScope,
    kv_reuse: KvReuse,
    cache_salt: str,
) -> Built:
    """Return the payload of a primitive whose reads are all written.

    `scope` says which documents searches may find; `kv_reuse` says how prompts may use chunk
    KV from elsewhere, and prompts of the same `cache_salt` share their KV.

    Raises:
        WorkflowError: a list slot has no item for this turn.
        InputError: a prompt is too long for the model.
    """
    config = primitive.config
    if isinstance(config, EmbedConfig):
        return Built(_build_embedding(config, store, primitive.node))
    if isinstance(config, SearchConfig):
        if config.within is not None:
            return Built(_build_matching(config, config.within, store))
        return Built(_build_search(config, store, scope, primitive.node))
    if isinstance(config, RerankConfig):
        question, read = _reading(config.query, config.passages, store, primitive.node)
        return Built(RerankPayload(question, _reading_texts(read)))
    if isinstance(config, ExtractConfig):
        question, read = _reading(config.question, config.passages, store, primitive.node)
        return Built(ExtractPayload(question, _reading_texts(read), config.quotes_max), read)
    if isinstance(config, PrefillConfig):
        parts = prompt_parts(config.parts, store, primitive.node)
        if config.is_fenced:
            parts = fenced(parts)
        written = () if config.written is None else generated(store, config.written).token_ids
        return _build_prefill(parts, written, tokenizer, cache_salt, kv_reuse)
    if isinstance(config, AskConfig):
        parts = prompt_parts(config.parts, store, primitive.node)
        if config.is_fenced:
            parts = fenced_question(parts)
        return Built(_build_asking(parts, tokenizer, cache_salt))
    if isinstance(config, PrimeConfig):
        return Built(_build_priming(config, store, tokenizer, cache_salt))
    if isinstance(config, IngestConfig):
        chunk_ids = np.asarray(store.get(config.chunk_ids), dtype=np.int64)
        vectors = _vectors(store, config.vectors)
        # Of a stage under way only the first rows are there.
        return Built(IngestPayload(chunk_ids[: len(vectors)], vectors))
    if isinstance(config, ToolConfig):
        values = (
            resolve(a, store, primitive.node) if isinstance(a, Read) else a
            for a in config.arguments
        )
        call = ToolPayload(config.function, tuple(values), config.timeout_s, config.batch_max)
        return Built(call)
    raise InternalError(f"{primitive.name!r} has no payload of its own")


def build_lead(
    primitive: Primitive, key: str, store: ObjectStore, tokenizer: Tokenizer | None, cache_salt: str
) -> PrefillPayload:
    """Return a prompt up to the passages of `key`, to be computed ahead of what follows them.

    Raises:
        InternalError: something before them isn't written.
        InputError: it is too long for the model as it is.
    """
    config = primitive.config
    assert isinstance(config, PrefillConfig), f"{primitive.name!r} is no prefill"
    shown = config.parts[: config.parts.index(Read(key)) + 1]
    if tokenizer is None:
        raise InternalError("a generation needs a tokenizer")
    parts = prompt_parts(shown, store, primitive.node)
    tokenizer.check_length(parts)
    # The same ids as in the whole prompt: what stands behind a passage changes nothing before it.
    segments = tokenizer.encode_prompt(parts)[:-1]
    return PrefillPayload(segments, cache_salt=cache_salt, is_speculative=True, rows=0)


def _build_embedding(config: EmbedConfig, store: ObjectStore, node: str) -> EmbedPayload:
    """Return the texts to embed; vectors of a request's own passages are not kept anywhere."""
    first = config.parts[0]
    own = as_passages(resolve(first, store, node)) if isinstance(first, Read) else ()
    if config.role is TextRole.PASSAGE and own:
        texts = tuple(embedding_text(passage.title, passage.text) for passage in own)
        return EmbedPayload(texts, config.role, may_keep=False)
    return EmbedPayload(query_texts(config.parts, store, node), config.role)


def _build_matching(config: SearchConfig, within: OwnPassages, store: ObjectStore) -> ToolPayload:
    queries, own = _vectors(store, config.vectors), _vectors(store, within.vectors)
    return ToolPayload(nearest_own, (queries, own, config.topk))


def _build_search(
    config: SearchConfig, store: ObjectStore, scope: SearchScope, node: str
) -> SearchPayload:
    return SearchPayload(
        _vectors(store, config.vectors),
        ranked(config.topk) if config.words else config.topk,
        config.nprobe,
        config.topm,
        scope=SearchScope(scope.tenant, both(scope.where, config.where)),
        words=query_texts(config.words, store, node) if config.words else None,
        while_decoding=config.while_decoding,
    )


def _reading(
    question: tuple[Part, ...], passages: Read | None, store: ObjectStore, node: str
) -> tuple[str, tuple[Passage, ...]]:
    """Return a question and the passages to read with it; a list in it is shown as a whole."""
    return whole_text(question, store, node), passages_of(passages, store, node)


def _reading_texts(passages: tuple[Passage, ...]) -> tuple[ReadingText, ...]:
    return tuple(ReadingText(passage.title, passage.text) for passage in passages)


def _build_prefill(
    parts: list[PromptPart],
    written: tuple[int, ...],
    tokenizer: Tokenizer | None,
    cache_salt: str,
    kv_reuse: KvReuse,
) -> Built:
    if tokenizer is None:
        raise InternalError("a generation needs a tokenizer")
    tokenizer.check_length(parts)
    shown = tuple([part for part in parts if isinstance(part, Passage)])
    segments = tokenizer.encode_prompt(parts)
    if written:
        segments = (*segments, Segment(written))
    return Built(PrefillPayload(segments, cache_salt=cache_salt, reuse=kv_reuse), shown)


def _build_asking(
    parts: list[PromptPart], tokenizer: Tokenizer | None, cache_salt: str
) -> AskPayload:
    if tokenizer is None:
        raise InternalError("a question needs a tokenizer")
    tokenizer.check_length(parts)
    # The same ids as behind any passage: how one ends is all that the text behind it depends on.
    before = max((i for i, part in enumerate(parts) if isinstance(part, Passage)), default=-1)
    segments = tokenizer.encode_prompt((_ANY_PASSAGE, *parts[before + 1 :]))[2:]
    ids = (token for segment in segments for token in segment.token_ids or ())
    return AskPayload(tuple(ids), cache_salt=cache_salt)


def _build_priming(
    config: PrimeConfig, store: ObjectStore, tokenizer: Tokenizer | None, cache_salt: str
) -> PrimePayload:
    if tokenizer is None:
        raise InternalError("priming needs a tokenizer")
    [chunk] = as_passages((store.get(config.passage),))
    near = (passage for key in config.near for passage in as_passages(store.get(key)))
    neighbours = neighbours_of(chunk, near, config.neighbours_max)
    # The same ids as in any prompt with this prefix; what stands behind a chunk changes nothing.
    # What matters most stands next to the chunk, as in its document.
    segments = tokenizer.encode_prompt((config.prefix, *reversed(neighbours), chunk))[:-1]
    return PrimePayload(segments, cache_salt, primed_with=config.primed_with)


def _vectors(store: ObjectStore, key: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    value = store.get(key)
    if not isinstance(value, Vectors):
        raise InternalError(f"{key!r} holds {type(value).__name__}, not vectors")
    return value.values
