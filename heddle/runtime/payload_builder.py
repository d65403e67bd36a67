"""From a ready primitive and its request's store to the payload an engine gets."""

from dataclasses import dataclass

import numpy as np

from heddle.core.errors import InternalError
from heddle.core.kv_reuse import KvReuse
from heddle.core.passages import Passage
from heddle.core.payloads import (
    EmbedPayload,
    IngestPayload,
    Payload,
    PrefillPayload,
    SearchPayload,
    ToolPayload,
)
from heddle.core.ports import Tokenizer
from heddle.core.results import Vectors
from heddle.graph.primitive import (
    EmbedConfig,
    IngestConfig,
    PrefillConfig,
    Primitive,
    Read,
    SearchConfig,
    ToolConfig,
)
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.values import prompt_parts, query_texts, resolve


@dataclass(frozen=True, slots=True)
class Built:
    """A payload, and the passages its prompt shows."""

    payload: Payload
    shown: tuple[Passage, ...] = ()


def build_payload(
    primitive: Primitive,
    store: ObjectStore,
    tokenizer: Tokenizer | None,
    tenant: str,
    kv_reuse: KvReuse,
) -> Built:
    """Return the payload of a primitive whose reads are all written.

    `tenant` separates prompt caches; `kv_reuse` says how prompts may use chunk KV from elsewhere.

    Raises:
        WorkflowError: a list slot has no item for this turn.
    """
    config = primitive.config
    if isinstance(config, EmbedConfig):
        return Built(EmbedPayload(query_texts(config.parts, store, primitive.node)))
    if isinstance(config, SearchConfig):
        return Built(SearchPayload(_vectors(store, config.vectors), config.topk, config.nprobe))
    if isinstance(config, PrefillConfig):
        parts = prompt_parts(config.parts, store, primitive.node)
        return _build_prefill(parts, tokenizer, tenant, kv_reuse)
    if isinstance(config, IngestConfig):
        chunk_ids = np.asarray(store.get(config.chunk_ids), dtype=np.int64)
        return Built(IngestPayload(chunk_ids, _vectors(store, config.vectors)))
    if isinstance(config, ToolConfig):
        values = (
            resolve(a, store, primitive.node) if isinstance(a, Read) else a
            for a in config.arguments
        )
        return Built(ToolPayload(config.function, tuple(values)))
    raise InternalError(f"{primitive.name!r} has no payload of its own")


def _build_prefill(
    parts: list[str | Passage | None],
    tokenizer: Tokenizer | None,
    tenant: str,
    kv_reuse: KvReuse,
) -> Built:
    if tokenizer is None:
        raise InternalError("a generation needs a tokenizer")
    shown = tuple(part for part in parts if isinstance(part, Passage))
    segments = tokenizer.encode_prompt(parts)
    return Built(PrefillPayload(segments, cache_salt=tenant, reuse=kv_reuse), shown)


def _vectors(store: ObjectStore, key: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    value = store.get(key)
    if not isinstance(value, Vectors):
        raise InternalError(f"{key!r} holds {type(value).__name__}, not vectors")
    return value.values
