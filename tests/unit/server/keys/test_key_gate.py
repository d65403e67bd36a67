"""A server with keys over HTTP: who gets in, as which tenant, how often."""

import asyncio
import hmac
import json
import logging
import math
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from starlette.routing import Route

from heddle.app.indexing.documents import DocumentChange, Embedded
from heddle.app.server_config import ServerConfig
from heddle.core.errors import Busy, Cancelled
from heddle.core.results import Vectors
from heddle.core.tasks import Optimizations
from heddle.corpus.records import PutOutcome
from heddle.runtime.events import Answer, RequestEvent, RequestFailed, TokenDelta
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import ReceiptDraft
from heddle.server.http import create_app
from heddle.server.keys import key_ring
from heddle.server.keys.api_key import ApiKey, KeyScope, digest_of
from heddle.server.keys.key_gate import NEEDED, OPEN, KeyGate
from heddle.server.keys.key_ring import KeyRing
from heddle.workflow.presets import preset

RECEIPT = ReceiptDraft(prompt_tokens=70, generated_tokens=20, tokens_read=10).close(
    Optimizations.EXACT, 0.5, "exact"
)
ANSWER = Answer("Ada", (), {}, RECEIPT)
GONE = Cancelled("the client went away")
ASK, EMBED, WRITE, ADMIN = KeyScope
DOORS: dict[str, tuple[str, str, dict[str, object]]] = {
    "ask": ("POST", "/v1/ask", {"question": "Who?"}),
    "stream": ("POST", "/v1/ask", {"question": "Who?", "stream": True}),
    "search": ("POST", "/v1/search", {"query": "rocks"}),
    "embeddings": ("POST", "/v1/embeddings", {"input": "rocks"}),
    "put": ("POST", "/v1/documents", {"id": "a", "text": "b"}),
    "delete": ("DELETE", "/v1/documents", {"id": "a"}),
}
NEEDS = {"ask": ASK, "stream": ASK, "search": ASK, "embeddings": EMBED, "put": WRITE}
NEEDS["delete"] = WRITE


class FakeServer:
    """Answers at once, and keeps the tenants that it was asked for."""

    config = ServerConfig(generator="reader")
    embedder_name = "small"

    def __init__(self, *events: RequestEvent) -> None:
        self.events = events or (TokenDelta("answer", "Ada"), ANSWER)
        self.tenants: list[object] = []

    def submit(self, workflow: object, inputs: object, *, tenant: str, **how: object) -> Handle:
        self.tenants.append(tenant)
        handle = Handle(lambda: None)
        for event in self.events:
            handle.push(event)
        return handle

    def submit_search(self, query: str, **how) -> Handle:
        return self.submit(None, query, **how)

    def submit_embedding(self, texts: object, *, tenant: str, **how: object) -> Future[Vectors]:
        self.tenants.append(tenant)
        future: Future[Vectors] = Future()
        future.set_result(Vectors(np.zeros((1, 2), np.float32), tokens=100))
        return future

    def upsert(self, name: str, text: str, *, tenant: str, **how: object) -> DocumentChange:
        self.tenants.append(tenant)
        return DocumentChange(PutOutcome.ADDED, Embedded(1), revision=1)

    def delete(self, name: str, *, tenant: str) -> bool:
        self.tenants.append(tenant)
        return True

    def health(self) -> dict[str, object]:
        return {"status": "ok", "ready": True, "roles": {}}


def key(
    tenant: str | None = "acme",
    *scopes: KeyScope,
    requests: float = math.inf,
    tokens: float = math.inf,
    secret: str = "secret",
) -> ApiKey:
    named = frozenset(scopes or KeyScope)
    return ApiKey(secret, digest_of(secret), tenant, named, requests, tokens)


def sent(
    server: FakeServer,
    ring: KeyRing,
    work: Callable[[httpx.AsyncClient], object],
    secret: str = "secret",
):
    async def run():
        app = create_app(
            server,
            {"oneshot": preset("oneshot").compile()},
            **{
                "takes_changes": True,
                "keys": ring,
            },
        )
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        client = httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        )
        async with client:
            return await work(client)

    return asyncio.run(run())


def through(door: str, **fields: object) -> Callable[[httpx.AsyncClient], object]:
    method, path, body = DOORS[door]
    given = {**body, **fields}
    if method == "DELETE":
        return lambda client: client.request(method, path, params=given)
    if path == "/v1/ask":
        given["workflow"] = "oneshot"
    return lambda client: client.request(method, path, json=given)


def error(response: httpx.Response) -> tuple[str, str]:
    assert set(response.json()) == {"error"}
    found = response.json()["error"]
    return found["type"], found["message"]


def charges(ring: KeyRing) -> list[float]:
    """Return a list that takes what the key is charged from now on."""
    held = ring.find("secret")
    assert held is not None
    charged: list[float] = []
    held.tokens.take = charged.append  # type: ignore[method-assign]
    return charged


def routes() -> list[Route]:
    app = create_app(FakeServer(), {}, takes_changes=True, keys=KeyRing([key()]))
    found = [route for route in app.routes if isinstance(route, Route)]
    assert len(found) == len(app.routes), "a kind of route that this test doesn't walk over"
    return found


def test_every_route_but_the_open_ones_is_closed():
    closed = set()
    for route in routes():
        for method in route.methods or {"GET"}:

            async def call(client, path=route.path, method=method):
                return await client.request(method, path)

            response = sent(FakeServer(), KeyRing([key()]), call, secret="")
            if route.path in OPEN:
                assert response.status_code == 200, route.path
            else:
                assert response.status_code == 401, route.path
                assert response.headers["www-authenticate"] == 'Bearer realm="heddle"'
                closed.add(route.path)
    assert closed == set(NEEDED), "each route says which scope it needs"
    assert {"/v1/ask", "/v1/documents", "/metrics", "/openapi.json"} <= closed


def test_a_path_that_is_no_route_says_nothing_without_a_key():
    for path in ("/redoc", "/v1/ask/", "/%2Fhealth", "/health/", "/assets/", "/assets/page.js/"):
        response = sent(FakeServer(), KeyRing([key()]), lambda c, p=path: c.get(p), secret="")
        assert response.status_code == 401, path
    found = sent(FakeServer(), KeyRing([key()]), lambda client: client.get("/redoc"))
    assert found.status_code == 404, "an admin learns that it isn't there"


def test_a_path_that_no_scope_is_named_for_is_an_admins():
    ring = KeyRing([key("acme", ASK, EMBED, WRITE)])
    response = sent(FakeServer(), ring, lambda client: client.get("/new"))
    assert response.status_code == 403
    assert "lacks the scope 'admin'" in error(response)[1]


def test_a_socket_is_closed_before_it_is_open():
    async def run() -> None:
        said: list[dict] = []

        async def application(scope, receive, send) -> None:
            raise AssertionError("no socket comes so far")

        async def send(message) -> None:
            said.append(message)

        async def receive():
            return {"type": "websocket.connect"}

        gate = KeyGate(application, KeyRing([key()]))
        await gate({"type": "websocket", "path": "/health", "headers": []}, receive, send)
        assert [message["type"] for message in said] == ["websocket.close"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer other"},
        {"Authorization": "Bearer secre"},
        {"Authorization": "Bearer secret2"},
        {"Authorization": f"Bearer {digest_of('secret').hex()}"},
        {"Authorization": "Basic secret"},
        {"Authorization": "secret"},
        {"Authorization": "Bearer"},
        {"Authorization": b"Bearer \xff\xfe"},
        [("Authorization", "Bearer secret"), ("Authorization", "Bearer secret")],
        {"X-API-Key": "secret"},
        {"Cookie": "key=secret"},
    ],
)
def test_what_is_no_key_of_the_server(headers, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    server = FakeServer()

    async def call(client):
        return await client.post("/v1/search", json={"query": "x"}, headers=headers)

    response = sent(server, KeyRing([key()]), call, secret="")
    assert response.status_code == 401
    kind, message = error(response)
    assert kind == "Unauthorized"
    assert "Authorization: Bearer KEY" in message
    assert "secre" not in response.text + caplog.text
    assert server.tenants == []


@pytest.mark.parametrize("name", ["key", "api_key", "api-key", "access_token", "Authorization"])
def test_a_key_in_the_url_is_never_read_or_logged(name: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "heddle")

    async def call(client):
        return await client.get("/v1/workflows", params={name: "Bearer secret"})

    assert sent(FakeServer(), KeyRing([key()]), call, secret="").status_code == 401
    assert "secret" not in caplog.text


def test_every_entry_is_compared_whole(monkeypatch: pytest.MonkeyPatch):
    compared = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return hmac.compare_digest(a, b)

    monkeypatch.setattr(key_ring, "hmac", SimpleNamespace(compare_digest=compare))
    ring = KeyRing([key(secret=name) for name in ("a", "b", "c")])
    for wanted in ("a", "c", "none"):
        compared.clear()
        found = ring.find(wanted)
        assert (found is None) is (wanted == "none")
        assert [b for _, b in compared] == [digest_of(name) for name in ("a", "b", "c")]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("scope", KeyScope)
def test_a_key_does_what_its_scopes_say(door: str, scope: KeyScope):
    server = FakeServer()
    response = sent(server, KeyRing([key("acme", scope)]), through(door))
    if scope is NEEDS[door]:
        assert response.status_code == 200
        assert server.tenants == ["acme"]
        return
    assert response.status_code == 403
    lacking = f"this key lacks the scope '{NEEDS[door].value}'"
    assert error(response) == ("Forbidden", f"{lacking}: use one that has it")
    assert server.tenants == []


@pytest.mark.parametrize("door", DOORS)
def test_the_tenant_is_the_keys(door: str):
    for named in ({}, {"tenant": ""}, {"tenant": "acme"}):
        server = FakeServer()
        assert sent(server, KeyRing([key()]), through(door, **named)).status_code == 200
        assert server.tenants == ["acme"]
    for mine, named in (("acme", "B"), ("acme", "acme "), ("", "B")):
        server = FakeServer()
        response = sent(server, KeyRing([key(mine)]), through(door, tenant=named))
        assert response.status_code == 403
        kind, message = error(response)
        assert (kind, message.partition(":")[0]) == ("Forbidden", "tenant")
        assert server.tenants == []


@pytest.mark.parametrize("door", DOORS)
def test_a_key_of_no_tenant_names_any(door: str):
    server = FakeServer()
    ring = KeyRing([key(None)])
    assert sent(server, ring, through(door, tenant="B")).status_code == 200
    assert sent(server, ring, through(door)).status_code == 200
    assert server.tenants == ["B", ""]


def test_the_metrics_are_an_admins():
    response = sent(FakeServer(), KeyRing([key("a", ASK)]), lambda c: c.get("/metrics"))
    assert response.status_code == 403
    for path in ("/openapi.json", "/v1/workflows"):
        found = sent(FakeServer(), KeyRing([key("a", ASK)]), lambda c, p=path: c.get(p))
        assert found.status_code == 200


def test_more_requests_than_a_minute_allows():
    async def work(client):
        first = [await client.get("/v1/workflows") for _ in range(3)]
        other = {"Authorization": "Bearer other"}
        return *first, await client.get("/v1/workflows", headers=other)

    ring = KeyRing([key(requests=2), key(secret="other")])
    one, two, three, other = sent(FakeServer(), ring, work)
    assert [r.status_code for r in (one, two, three, other)] == [200, 200, 429, 200]
    kind, message = error(three)
    assert kind == "TooManyRequests"
    assert message.startswith("requests_per_minute: this key may use 2;")
    assert 1 <= int(three.headers["retry-after"]) <= 30
    assert 1 <= int(three.headers["retry-after-ms"]) <= 30_000


@pytest.mark.parametrize("door", ["ask", "stream", "search", "embeddings"])
def test_an_answer_costs_its_true_sum(door: str):
    async def work(client):
        return [await through(door)(client) for _ in range(3)]

    replies = sent(FakeServer(), KeyRing([key(tokens=150)]), work)
    assert [r.status_code for r in replies] == [200, 200, 429], "100 tokens each"
    assert error(replies[-1])[1].startswith("tokens_per_minute: this key may use 150;")


def test_a_stream_is_charged_as_it_goes_and_settled_at_its_end():
    ring = KeyRing([key(tokens=1_000_000)])
    charged = charges(ring)
    sent(
        FakeServer(TokenDelta("answer", "Ada " * 5), ANSWER),
        ring,
        through("stream"),
    )
    asked = math.ceil(len("Who?" + "oneshot" + "acme") / 4)
    assert charged == [asked, 5, 95 - asked]


LONG = "wool " * 800
CHAT = {"model": "workflow:oneshot", "messages": [{"role": "user", "content": LONG}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/ask", {"question": LONG, "workflow": "oneshot"}),
        ("/v1/ask", {"question": "Who?", "workflow": "oneshot", "documents": [{"text": LONG}]}),
        ("/v1/ask", {"question": LONG, "workflow": "oneshot", "stream": True}),
        ("/v1/chat/completions", CHAT),
        ("/v1/search", {"query": LONG}),
        ("/v1/embeddings", {"input": ["wool", LONG]}),
    ],
)
def test_a_request_without_an_answer_costs_what_it_asks(path: str, body: dict[str, object]):
    class LeftServer(FakeServer):
        store = object()
        generator = SimpleNamespace(name="tiny")
        plan = SimpleNamespace(remote=SimpleNamespace(generator=None), generator=generator)

        def submit_embedding(self, *_: object, **__: object) -> Future[Vectors]:
            future: Future[Vectors] = Future()
            future.set_exception(GONE)
            return future

    ring = KeyRing([key(tokens=500)])
    charged = charges(ring)
    first = sent(LeftServer(RequestFailed(GONE)), ring, lambda c: c.post(path, json=body))
    assert first.status_code == (200 if body.get("stream") else 499), first.text
    [tokens] = charged
    assert len(LONG) / 4 <= tokens < len(LONG) / 4 + 10


def test_a_refused_request_costs_no_tokens():
    class FullServer(FakeServer):
        def submit(self, *_: object, **__: object) -> Handle:
            raise Busy("full", wait_s=1.0)

    ring = KeyRing([key(tokens=500)])
    charged = charges(ring)
    assert sent(FullServer(), ring, through("ask", question=LONG)).status_code == 503
    assert charged == []


def test_what_is_refused_by_its_key_begins_nothing():
    """Neither the body nor the server is looked at."""

    async def run() -> None:
        app = create_app(FakeServer(), {}, keys=KeyRing([key()]))
        said: list[dict] = []

        async def send(message) -> None:
            said.append(message)

        async def receive():
            raise AssertionError("the body is not read")

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/ask",
            "query_string": b"",
            "headers": [(b"content-length", b"1000000")],
        }
        await app(scope, receive, send)
        assert said[0]["status"] == 401
        assert json.loads(said[1]["body"])["error"]["type"] == "Unauthorized"

    asyncio.run(run())
