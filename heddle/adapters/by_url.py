"""A running `heddle serve`, by its address, as an adapter's engine."""

import base64
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final, TypeVar
from urllib.parse import urlencode
from weakref import finalize

import httpx
import numpy as np

from heddle.adapters.address import (
    server_address,
    server_key,
    server_trust,
    shown_address,
)
from heddle.adapters.loop_clients import LoopClients
from heddle.adapters.remote_reply import ChatStream, error_of, passage_of
from heddle.adapters.stream_lines import StreamLines
from heddle.adapters.text_parts import json_bytes, text_parts
from heddle.adapters.values import (
    ChatCall,
    ChatReply,
    EmbedCall,
    Embedded,
    Found,
    Ranked,
    RankedText,
    RerankCall,
    SearchCall,
)
from heddle.app.requests.arguments import patience_s
from heddle.app.requests.call_identity import CallIdentity
from heddle.core.errors import (
    Busy,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    HeddleError,
    InputError,
)
from heddle.core.tasks import Priority
from heddle.runtime.clock import SystemClock

CONNECT_S: Final = 5.0
SECONDS: Final = 600.0  # as a server's requests have by default
AFTER_S: Final = 5.0  # for the server's own word that a deadline has passed
FAR_S: Final = 1e9  # stands for a deadline that never comes, which JSON can't say
CONNECTIONS_MAX: Final = 256
MODELS: Final = "/v1/models"
NO_MODEL: Final = "model_not_found"
UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
T = TypeVar("T")
_Call = ChatCall | SearchCall | RerankCall | EmbedCall | None


class ByUrl:
    """Calls a running server over HTTP.

    Args:
        url: its address, such as http://127.0.0.1:8321, with or without /v1.
        api_key: the server's key for this client; "" = none.
        tenant: whose documents and caches are used; "" = those without a tenant, or the key's.

    Raises:
        ConfigError: the address is none of HTTP, or no header can hold the key.
    """

    def __init__(self, url: str, *, api_key: str = "", tenant: str = "") -> None:
        base, key = server_address(url), server_key(api_key)
        self.url, self.tenant = base, tenant
        self._settings: dict[str, Any] = {
            "base_url": base,
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "limits": httpx.Limits(max_connections=CONNECTIONS_MAX),
            "trust_env": False,
        }
        self._key = (base, key, tenant)
        self._of_loops = LoopClients(partial(_async_client, self._settings))
        self._model = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByUrl) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def name(self) -> str:
        """What names the engine in messages."""
        return shown_address(self.url)

    def chat(self, call: ChatCall, by: CallIdentity | None = None) -> Iterator[str | ChatReply]:
        """Have the LLM go on with a conversation."""
        was_known = bool(self._model)
        try:
            yield from self._chat(call, by)
            return
        except InputError as error:
            if not was_known or error.code != NO_MODEL:
                raise
        self._model = ""  # the server was started anew, with another one
        yield from self._chat(call, by)

    async def achat(
        self, call: ChatCall, by: CallIdentity | None = None
    ) -> AsyncIterator[str | ChatReply]:
        """Have the LLM go on with a conversation."""
        was_known = bool(self._model)
        try:
            async with aclosing(self._achat(call, by)) as items:
                async for item in items:
                    yield item
            return
        except InputError as error:
            if not was_known or error.code != NO_MODEL:
                raise
        self._model = ""
        async with aclosing(self._achat(call, by)) as items:
            async for item in items:
                yield item

    def _chat(self, call: ChatCall, by: CallIdentity | None) -> Iterator[str | ChatReply]:
        if not self._model:
            self._model = self._read(_llm, self._plain("GET", MODELS, None, call, by))
        stream, lines = ChatStream(self._model), StreamLines()
        with (
            _words(self.name),
            self._client.stream(
                "POST",
                "/v1/chat/completions",
                **_sent(self._chat_body(call), by),
                timeout=_timeout(call.deadline_s, by),
            ) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise error_of(response.status_code, response.read(), response.headers)
            for text in response.iter_text():
                for line in lines.feed(text):
                    yield from stream.items(line)
            for line in lines.close():
                yield from stream.items(line)
            yield stream.reply()

    async def _achat(
        self, call: ChatCall, by: CallIdentity | None
    ) -> AsyncGenerator[str | ChatReply, None]:
        if not self._model:
            self._model = self._read(_llm, await self._aplain("GET", MODELS, None, call, by))
        stream, lines = ChatStream(self._model), StreamLines()
        with _words(self.name):
            client = await self._of_loops.client()
            async with client.stream(
                "POST",
                "/v1/chat/completions",
                **_sent(self._chat_body(call), by),
                timeout=_timeout(call.deadline_s, by),
            ) as response:
                if response.status_code != httpx.codes.OK:
                    body = await response.aread()
                    raise error_of(response.status_code, body, response.headers)
                async for text in response.aiter_text():
                    for line in lines.feed(text):
                        for item in stream.items(line):
                            yield item
                for line in lines.close():
                    for item in stream.items(line):
                        yield item
                yield stream.reply()

    def search(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        """Find passages."""
        return self._read(
            _found, self._plain("POST", "/v1/search", self._search_body(call), call, by)
        )

    async def asearch(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        """Find passages."""
        body = self._search_body(call)
        return self._read(_found, await self._aplain("POST", "/v1/search", body, call, by))

    def embed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        """Embed texts, in several requests where they are many."""
        return _joined(
            [
                self._read(_embedded, self._plain("POST", "/v1/embeddings", body, one, named))
                for one, named, body in self._embed_parts(call, by)
            ]
        )

    async def aembed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        """Embed texts, in several requests where they are many."""
        return _joined(
            [
                self._read(
                    _embedded, await self._aplain("POST", "/v1/embeddings", body, one, named)
                )
                for one, named, body in self._embed_parts(call, by)
            ]
        )

    def rerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        """Rank texts."""
        return self._read(
            _ranked, self._plain("POST", "/v1/rerank", self._rerank_body(call), call, by)
        )

    async def arerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        """Rank texts."""
        body = self._rerank_body(call)
        return self._read(_ranked, await self._aplain("POST", "/v1/rerank", body, call, by))

    def cancel_run(self, run: str) -> None:
        """Have the server asked for the end of a run's requests, and return at once.

        A server that can't be reached is left alone: it has nothing that could be freed here.
        """

        def ask() -> None:
            with suppress(HeddleError):
                self._plain("DELETE", self._run_path(run), None, None, None)

        threading.Thread(target=ask, name="heddle-cancel", daemon=True).start()

    def close(self) -> None:
        """Hang up the connections of threads; asyncio.run closes those of its loop at its end."""
        self._client.close()

    @cached_property
    def _client(self) -> httpx.Client:
        client = httpx.Client(**self._settings, verify=server_trust(self.url))
        finalize(self, client.close)  # components make engines, and few programs close those
        return client

    def _plain(
        self, method: str, path: str, body: object, call: _Call, by: CallIdentity | None
    ) -> Any:
        with _words(self.name):
            seconds = None if call is None else call.deadline_s
            response = self._client.request(
                method, path, **_sent(body, by), timeout=_timeout(seconds, by)
            )
        return _json(response)

    async def _aplain(
        self, method: str, path: str, body: object, call: _Call, by: CallIdentity | None
    ) -> Any:
        with _words(self.name):
            seconds = None if call is None else call.deadline_s
            client = await self._of_loops.client()
            response = await client.request(
                method, path, **_sent(body, by), timeout=_timeout(seconds, by)
            )
        return _json(response)

    def _read(self, reader: Callable[[Any], T], body: Any) -> T:
        """Return what a reply holds.

        Raises:
            EngineError: it has another form.
        """
        try:
            return reader(body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, HeddleError):
                raise
            words = f"answers in another form ({error!r:.60}): is it a heddle of this version?"
            raise EngineError(words, engine=self.name, request_ids=()) from error

    def _chat_body(self, call: ChatCall) -> dict[str, Any]:
        own = self._own(call.deadline_s, call.priority)
        others = {
            "tools": list(call.tools) or None,
            "tool_choice": call.tool_choice,
            "response_format": call.response_format,
            "parallel_tool_calls": call.parallel_tool_calls,
        }
        return {
            "model": self._model,
            "messages": list(call.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "heddle": own,
            **call.writing,
            **{name: value for name, value in others.items() if value is not None},
        }

    def _search_body(self, call: SearchCall) -> dict[str, Any]:
        own = self._own(call.deadline_s, call.priority)
        where = {} if call.where is None else {"where": dict(call.where)}
        flags = {"hybrid": call.hybrid, "rerank": call.rerank}
        return {"query": call.query, "topk": call.topk, **flags, **where, **own}

    def _rerank_body(self, call: RerankCall) -> dict[str, Any]:
        own = self._own(call.deadline_s, call.priority)
        texts = list(call.texts)
        return {"query": call.query, "documents": texts, "return_documents": False, **own}

    def _embed_parts(
        self, call: EmbedCall, by: CallIdentity | None
    ) -> Iterator[tuple[EmbedCall, CallIdentity | None, dict[str, Any]]]:
        """Yield a call for each request that the texts are sent in, each when the last is answered.

        Raises:
            DeadlineExceeded: the time of all of them is over.
        """
        clock = SystemClock()
        begun_s = clock.now_s()
        for number, texts in enumerate(text_parts(call.texts)):
            part, named = replace(call, texts=texts), by
            if number and call.deadline_s is not None:
                left_s = call.deadline_s - (clock.now_s() - begun_s)
                if left_s <= 0:
                    raise DeadlineExceeded(f"{self.name} has not answered in time")
                part = replace(part, deadline_s=left_s)
            if number and by is not None and by.seconds_left is not None:
                named = replace(by, seconds_left=by.seconds_left - (clock.now_s() - begun_s))
            yield part, named, self._embed_body(part)

    def _embed_body(self, call: EmbedCall) -> dict[str, Any]:
        own = self._own(call.deadline_s, call.priority)
        return {"input": list(call.texts), "role": call.role, "encoding_format": "base64", **own}

    def _run_path(self, run: str) -> str:
        tenant = f"?{urlencode({'tenant': self.tenant})}" if self.tenant else ""
        return f"/v1/runs/{run}{tenant}"

    def _own(self, deadline_s: float | None, priority: Priority | None) -> dict[str, Any]:
        """Return the fields of a request that name its tenant, deadline and class.

        Raises:
            InputError: the deadline is no number.
        """
        own_s = patience_s(deadline_s)
        if own_s is not None and math.isnan(own_s):
            raise InputError("deadline_s must be above 0, got nan", param="deadline_s")
        given = {
            "tenant": self.tenant or None,
            "deadline_s": None if own_s is None else min(own_s, FAR_S),
            "priority": None if priority is None else priority.name.lower(),
        }
        return {name: value for name, value in given.items() if value is not None}


def _async_client(settings: Mapping[str, Any]) -> httpx.AsyncClient:
    return httpx.AsyncClient(**settings, verify=server_trust(settings["base_url"]))


def _sent(body: object, by: CallIdentity | None) -> dict[str, Any]:
    """Return a request's body and headers. httpx's own encoding raises on what is no Unicode,
    which the server refuses as it does in process."""
    headers = {} if by is None else by.headers()
    if body is None:
        return {"headers": headers}
    return {"headers": {**headers, "Content-Type": "application/json"}, "content": json_bytes(body)}


def _timeout(deadline_s: float | None, by: CallIdentity | None) -> httpx.Timeout:
    """Return how long a silent server is waited for: it ends what is late by itself."""
    ends = [deadline_s, None if by is None else by.seconds_left]
    seconds = min((one for one in ends if one is not None), default=SECONDS)
    return httpx.Timeout(min(max(0.0, seconds), FAR_S) + AFTER_S, connect=CONNECT_S)


@contextmanager
def _words(url: str) -> Iterator[None]:
    """Say in words why a server doesn't answer.

    Raises:
        EngineError: it can't be reached, or broke off.
        DeadlineExceeded: it stays silent.
        Busy: all connections of this process are in use.
    """
    try:
        yield
    except httpx.PoolTimeout as error:
        words = f"all {CONNECTIONS_MAX} connections to {url} are in use"
        raise Busy(words, wait_s=1.0) from error
    except httpx.ConnectError as error:
        words = "can't be reached: is `heddle serve` started there?"
        if UNTRUSTED in str(error):
            words = "has a certificate that isn't trusted here: SSL_CERT_FILE names others"
        raise EngineError(words, engine=url, request_ids=()) from error
    except httpx.TimeoutException as error:
        raise DeadlineExceeded(f"{url} has not answered in time") from error
    except httpx.HTTPError as error:
        words = f"broke off: {type(error).__name__}: {error}"
        raise EngineError(words, engine=url, request_ids=()) from error


def _json(response: httpx.Response) -> Any:
    if not response.is_success:
        raise error_of(response.status_code, response.content, response.headers)
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        words = "answered with something else than JSON: is it a heddle server?"
        engine = shown_address(str(response.url))
        raise EngineError(words, engine=engine, request_ids=()) from error


def _llm(models: Any) -> str:
    """Return the LLM's name among a server's models.

    Raises:
        ConfigError: the server has none.
    """
    names = [one["id"] for one in models["data"]]
    plain = [one for one in models["data"] if one.get("kind") == "llm"]
    if not plain:
        raise ConfigError(
            f"the server has no model that writes (it offers {', '.join(names) or 'none'}): "
            "start it with --model"
        )
    return str(plain[0]["id"])


def _found(body: Mapping[str, Any]) -> Found:
    passages = tuple(passage_of(one) for one in body["passages"])
    return Found(passages, body.get("receipt", {}))


def _ranked(body: Mapping[str, Any]) -> Ranked:
    texts = (RankedText(one["index"], one["relevance_score"]) for one in body["results"])
    return Ranked(tuple(texts), {"tokens_read": body.get("usage", {}).get("prompt_tokens", 0)})


def _joined(parts: list[Embedded]) -> Embedded:
    if len(parts) == 1:
        return parts[0]
    vectors = [vector for part in parts for vector in part.vectors]
    return Embedded(vectors, sum(part.tokens for part in parts))


def _embedded(body: Mapping[str, Any]) -> Embedded:
    rows = sorted(body["data"], key=lambda one: one["index"])
    values = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4").tolist() for one in rows]
    return Embedded(values, body.get("usage", {}).get("prompt_tokens", 0))
