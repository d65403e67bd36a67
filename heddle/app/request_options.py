"""What a request may say beside its workflow and inputs: the keywords, and their checked value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypedDict

from heddle.app.requests.arguments import member_named, patience_s, tenant_name
from heddle.app.requests.documents import GivenDocument, checked_documents
from heddle.app.server_config import ServerConfig
from heddle.app.server_settings import LongTextsWord, OptimizationsWord
from heddle.app.setting import did_you_mean
from heddle.core.errors import ConfigError, InputError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse, kv_reuse_of
from heddle.core.payloads import TextRole
from heddle.core.prompts.constraint import Constraint
from heddle.core.search_scope import Where, where_of
from heddle.core.tasks import Optimizations, Priority
from heddle.corpus.document import Document
from heddle.engines.embedding.long_texts import LongTexts
from heddle.workflow.caching.answer_caching import NO_CACHE, Caching
from heddle.workflow.writing import Writing

PriorityWord = Literal["interactive", "normal", "bulk"]
RoleWord = Literal["plain", "query", "passage"]
STRENGTH = {Optimizations.OFF: 0, Optimizations.EXACT: 1, Optimizations.APPROX: 2}


class RequestOptions(TypedDict, total=False):
    """The keywords of `Server.submit`, `Server.ask` and of an App's verbs.

    Args:
        topk: passages of each search; None = as the workflow has it.
        hybrid: search by words (BM25) as well as by meaning; None = as the workflow does.
        where: metadata that found documents must have, for every search: {"lang": "en", "year":
            [2020, 2021]} asks for the value, or one of the list, of each key.
        documents: texts, or mappings with `text` and perhaps `title`, for workflows that answer
            from documents of the request, such as doc_qa_naive: up to 64, of 1 MiB together. Only
            this request sees them, and nothing of them is kept.
        tenant: searches find this tenant's documents and those without a tenant; prefix caches are
            never shared between tenants.
        deadline_s: seconds until the answer is worthless; None = the server's default.
        priority: "interactive", "normal" or "bulk".
        optimizations: "off", "exact" or "approx"; at most what the server allows.
        kv_reuse: how prompts use stored chunk KV, which needs "approx": a KvReuse or a text such as
            "fusionrag,0.15"; None = as the server does, if the request's `optimizations` are
            "approx".
        answer_cache: False = no earlier answer is taken, and this one isn't kept.
        max_tokens: the most tokens of the answer; None = as the server does, and this and the next
            six are for the generations that write the answer.
        temperature: 0 = the likeliest token each time; up to 2.
        system: a text that says what the model is to be, before the prompt.
        prompt: a template with {docs} and {input} in the place of the workflow's own.
        top_p: draw from the likeliest tokens that together have this probability.
        seed: equal seeds draw equal tokens; None = 0.
        stop: a text, or up to 16, before which the answer ends.
        constraint: what the answer has to be: JSON of a schema, a match of a regex, one of some
            texts (docs/guide/structured.md).
    """

    topk: int | None
    hybrid: bool | None
    where: Mapping[str, object] | None
    documents: Sequence[GivenDocument] | None
    tenant: str
    deadline_s: float | None
    priority: Priority | PriorityWord
    optimizations: Optimizations | OptimizationsWord | None
    kv_reuse: KvReuse | str | None
    answer_cache: bool | None
    max_tokens: int | None
    temperature: float | None
    system: str | None
    prompt: str | None
    top_p: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    constraint: Constraint | None


class EmbeddingOptions(TypedDict, total=False):
    """The keywords of `embed` and `submit_embedding`; each is explained at `Server.embed`."""

    role: TextRole | RoleWord
    deadline_s: float | None
    priority: Priority | PriorityWord | None
    tenant: str
    dimensions: int | None
    long_texts: LongTexts | LongTextsWord | None


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """The options of one request, checked; the server's settings fill the others.

    `topk` and `hybrid` are checked with the workflow; see `with_searches`. `writing` is what the
    caller gave alone. A request with `documents` reuses no chunk KV: theirs is never stored.
    `caching` says which answer cache it may use; one that `wants_cache` is refused without one.
    """

    topk: int | None
    hybrid: bool | None
    where: Where
    documents: tuple[Document, ...]
    tenant: str
    deadline_s: float | None
    priority: Priority
    optimizations: Optimizations
    kv_reuse: KvReuse
    caching: Caching
    wants_cache: bool
    writing: Writing

    @classmethod
    def of(cls, given: Mapping[str, Any], config: ServerConfig) -> Self:
        """Check what a caller gave.

        Raises:
            InputError: a name is unknown, or a value can't be used.
            ConfigError: the server doesn't allow it.
        """
        _check_names(given, RequestOptions)
        mode = _optimizations(given.get("optimizations"), config)
        documents = checked_documents(given.get("documents"))
        kv_reuse = _kv_reuse(given.get("kv_reuse"), mode, config)
        if documents and given.get("kv_reuse") is not None and kv_reuse.is_approximate:
            raise InputError(
                "kv_reuse: the KV of documents that come with a request is never stored: leave it "
                "out, or the documents"
            )
        return cls(
            topk=given.get("topk"),
            hybrid=given.get("hybrid"),
            where=where_of(given.get("where") or {}),
            documents=documents,
            tenant=tenant_name(given.get("tenant", "")),
            deadline_s=patience_s(given.get("deadline_s")),
            priority=member_named(Priority, given.get("priority", Priority.NORMAL), "priority"),
            optimizations=mode,
            kv_reuse=FULL_ATTENTION if documents else kv_reuse,
            caching=_caching(given.get("answer_cache"), mode, config),
            wants_cache=given.get("answer_cache") is True,
            writing=Writing.of(given),
        )


@dataclass(frozen=True, slots=True)
class CheckedEmbedding:
    """The options of one embedding, checked. `in_windows` None = as the server has it."""

    role: TextRole
    deadline_s: float | None
    priority: Priority
    tenant: str
    dimensions: int | None
    in_windows: bool | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Check what a caller gave.

        Raises:
            InputError: a name is unknown, or a value can't be used.
            ConfigError: a word is none of those that are taken.
        """
        _check_names(given, EmbeddingOptions)
        long_texts = given.get("long_texts")
        in_windows = None
        if long_texts is not None:
            in_windows = member_named(LongTexts, long_texts, "long_texts") is LongTexts.WINDOW
        return cls(
            role=member_named(TextRole, given.get("role", TextRole.PLAIN), "role"),
            deadline_s=patience_s(given.get("deadline_s")),
            priority=_embedding_priority(given),
            tenant=tenant_name(given.get("tenant", "")),
            dimensions=given.get("dimensions"),
            in_windows=in_windows,
        )


def _embedding_priority(given: Mapping[str, Any]) -> Priority:
    """Return the class of an embedding: without a deadline it waits for everybody's questions."""
    wanted = given.get("priority")
    if wanted is None:
        return Priority.BULK if given.get("deadline_s") is None else Priority.NORMAL
    found: Priority = member_named(Priority, wanted, "priority")
    return found


def _check_names(given: Mapping[str, Any], known: type) -> None:
    names = known.__annotations__
    for name in given:
        if name not in names:
            raise InputError(f"{name!r} is no option of a request: {did_you_mean(name, names)}")


def _optimizations(wanted: Optimizations | str | None, config: ServerConfig) -> Optimizations:
    most = config.optimizations_max
    if wanted is None:
        return most
    mode = member_named(Optimizations, wanted, "optimizations")
    if STRENGTH[mode] > STRENGTH[most]:
        raise ConfigError(
            f"optimizations={mode.value!r} is more than this server allows ({most.value!r})"
        )
    return mode


def _caching(wanted: object, mode: Optimizations, config: ServerConfig) -> Caching:
    if wanted is not None and not isinstance(wanted, bool):
        raise InputError(f"answer_cache must be True or False, got {wanted!r:.40}")
    if wanted is False or mode is Optimizations.OFF:
        return NO_CACHE
    return replace(config.caching, allows_similar=mode is Optimizations.APPROX)


def _kv_reuse(wanted: KvReuse | str | None, mode: Optimizations, config: ServerConfig) -> KvReuse:
    if wanted is None:
        return config.kv_reuse
    reuse = kv_reuse_of(wanted)
    if reuse.is_approximate and mode is not Optimizations.APPROX:
        raise ConfigError(
            f"kv_reuse {reuse.policy.value!r} gives approximate answers: allow them with "
            "optimizations='approx' (for the server, too)"
        )
    return reuse
