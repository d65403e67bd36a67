"""The HTTP application on a server that does only what a test says."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from heddle import __version__
from heddle.app.indexing.documents import DocumentChange, Embedded
from heddle.app.server_config import ServerConfig
from heddle.core.errors import (
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    EngineError,
    HeddleError,
    InputError,
    InternalError,
    StorageError,
    WorkflowError,
)
from heddle.core.passages import Passage, Place
from heddle.core.primitives import PrimitiveKind
from heddle.core.prompts.constraint import Constraint
from heddle.core.tasks import Optimizations
from heddle.corpus.records import PutOutcome
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestEvent,
    RequestFailed,
    Retrieved,
    TokenDelta,
)
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import ReceiptDraft, Span
from heddle.server import json_body
from heddle.server.drain import Drain
from heddle.server.http import CHANGES_AT_ONCE, create_app
from heddle.server.json_body import BODY_BYTES_MAX
from heddle.workflow.presets import preset

PLACE = Place("rocks.pdf", 3, ("Ores",), 5, 9)
PASSAGE = Passage(7, "doc-7", "Rock 7", "Its keeper is “Ada”.\n", 0.25, place=PLACE)
SPAN = Span("answer.decode@0", "answer", PrimitiveKind.DECODING, "llm", 0.1, 0.2, 0.3)
RECEIPT = ReceiptDraft(generated_tokens=2, spans=[SPAN]).close(Optimizations.EXACT, 0.5, "exact")
ANSWER = Answer("Ada\n…", (PASSAGE,), {"docs": (PASSAGE,)}, RECEIPT)
EVENTS = (
    NodeStarted("retrieve", 0),
    Retrieved("retrieve", (PASSAGE,)),
    NodeFinished("retrieve", 0),
    TokenDelta("answer", "Ada\n…"),
    ANSWER,
)
WAIT_S = 20.0  # longer than anything here takes
WORKFLOWS = {"oneshot": preset("oneshot").compile()}
ERRORS = [
    (InputError("question is empty"), 400),
    (WorkflowError("node 'x' loops"), 400),
    (ConfigError("node 'answer' needs decoding, and no engine here does that"), 400),
    (Busy("2 of 2 requests are in flight", wait_s=2.2), 503),
    (DeadlineExceeded("no answer within 1.0 s"), 504),
    (EngineError("lane lost", engine="llm", request_ids=(1,)), 500),
    (StorageError("the disk failed to read"), 500),
    (DiskFull("the disk is full"), 507),
    (InternalError("KeyError: 'x'"), 500),
]


class FakeServer:
    """Pushes events into the handle it returns, or refuses."""

    config = ServerConfig(generator="reader")

    def __init__(
        self,
        events: tuple[RequestEvent, ...] = EVENTS,
        refusal: Exception | None = None,
        health: dict[str, object] | None = None,
    ) -> None:
        self.events = events
        self.refusal = refusal
        self.found = health or {"status": "ok", "ready": True, "roles": {}}
        self.asked: list[tuple[object, str, dict[str, object]]] = []
        self.cancels = 0

    def submit(self, workflow: object, question: str, **how: object) -> Handle:
        self.asked.append((workflow, question, how))
        if self.refusal is not None:
            raise self.refusal
        self.handle = Handle(self._cancel)
        for event in self.events:
            self.handle.push(event)
        return self.handle

    def submit_search(self, query: str, **how: object) -> Handle:
        return self.submit(None, query, **how)

    def _cancel(self) -> None:
        self.cancels += 1
        if not self.handle.is_done:
            self.handle.push(RequestFailed(Cancelled("cancelled by the caller")))

    def health(self) -> dict[str, object]:
        return self.found


def call(server: FakeServer, work: Callable[[httpx.AsyncClient], object]) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(server, WORKFLOWS), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await work(client)

    return asyncio.run(run())


def ask(server: FakeServer, **body: object) -> httpx.Response:
    return call(server, lambda client: client.post("/v1/ask", json=body))


def message(response: httpx.Response) -> str:
    assert "Traceback" not in response.text
    assert set(response.json()) == {"error"}
    return response.json()["error"]["message"]


def events_of(text: str) -> list[tuple[str, dict]]:
    frames = [frame.split("\n") for frame in text.removesuffix("\n\n").split("\n\n")]
    return [(n.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for n, d in frames]


def test_a_name_of_somebody_else_is_refused_before_anything_is_asked():
    server = FakeServer()
    headers = {"Host": "evil.example", "Origin": "http://evil.example"}
    refused = call(server, lambda client: client.post("/v1/ask", json={}, headers=headers))
    assert refused.status_code == 421
    assert "evil.example" in message(refused)


def test_no_redirect_sends_a_client_where_its_host_header_says():
    found = call(FakeServer(), lambda client: client.post("/v1/ask/", json={"question": "Why?"}))
    assert found.status_code == 404
    assert "location" not in found.headers


def test_a_body_that_takes_too_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_body, "BODY_S", 0.05)

    async def half():
        yield b"{"
        await asyncio.sleep(60)

    headers = {"Content-Type": "application/json"}
    late = call(
        FakeServer(), lambda client: client.post("/v1/ask", content=half(), headers=headers)
    )
    assert late.status_code == 408
    assert late.headers["connection"] == "close"
    assert "took longer than 0.05 s" in message(late)


def test_an_answer_with_its_passages_and_receipt():
    server = FakeServer()
    response = ask(server, question="Who?")
    assert response.status_code == 200
    found = response.json()
    assert found["answer"] == "Ada\n…"
    assert found["passages"] == [
        {
            "title": "Rock 7",
            "text": PASSAGE.text,
            "document_id": "doc-7",
            "chunk_id": PASSAGE.chunk_id,
            "place": {"file": "rocks.pdf", "page": 3, "heading": ["Ores"], "start": 5, "end": 9},
            "copies": 0,
            "distance": 0.25,
            "score": None,
        }
    ]
    assert found["receipt"]["optimizations"] == "exact"
    assert found["receipt"]["spans"][0]["kind"] == PrimitiveKind.DECODING.value
    assert server.cancels == 0


def test_every_field_reaches_the_server():
    server = FakeServer()
    where = {"lang": "en", "year": [2020, 2021], "draft": False}
    how = {
        "topk": 3,
        "hybrid": True,
        "where": where,
        "documents": [{"title": "Tides", "text": "They turn."}],
        "tenant": "ann",
        "deadline_s": 2,
        "priority": "bulk",
        "optimizations": "approx",
        "kv_reuse": "fusionrag,0.15",
        "max_tokens": 99,
        "temperature": 0.5,
        "system": "Be brief.",
        "prompt": "{docs}{input}",
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "answer_cache": False,
    }
    form = {"json_schema": {"type": "integer"}, "before": "<", "after": ">"}
    ask(server, question="Who?", inputs={"topic": "tides"}, constraint=form, **how)
    values = {"topic": "tides", "query": "Who?"}
    kept = Constraint.json_schema({"type": "integer"}, before="<", after=">")
    assert server.asked == [(WORKFLOWS["oneshot"], values, {**how, "constraint": kept})]
    for form, kept in (
        ({"json_schema": True}, Constraint.json_schema(True)),
        ({"regex": "[a-z]+"}, Constraint.regex("[a-z]+")),
        ({"choice": ["yes", "no"]}, Constraint.choice(["yes", "no"])),
    ):
        ask(server, question="Who?", constraint=form)
        assert server.asked[-1][2]["constraint"] == kept


def test_a_search_has_passages_and_no_answer():
    server = FakeServer()
    response = call(server, lambda client: client.post("/v1/search", json={"query": "ores"}))
    assert response.status_code == 200
    assert list(response.json()) == ["passages", "receipt"]
    assert response.json()["passages"] == ask(FakeServer(), question="x").json()["passages"]
    defaults = {"topk": 5, "hybrid": False, "rerank": False, "where": None, "tenant": ""}
    assert server.asked == [(None, "ores", {**defaults, "deadline_s": None, "priority": "normal"})]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "^query: is missing$"),
        ({"query": ""}, "^query: is empty$"),
        ({"query": "x", "topk": 0}, "topk: "),
        ({"query": "x", "rerank": 3}, "rerank: "),
        ({"query": "x", "where": {"": 1}}, "^where: "),
        ({"query": "x", "question": "y"}, "^question: there is no such field; send query$"),
    ],
)
def test_a_bad_field_of_a_search_is_named(body: dict[str, object], words: str):
    response = call(FakeServer(), lambda client: client.post("/v1/search", json=body))
    assert response.status_code == 400
    assert re.search(words, message(response))


def test_a_stream_tells_every_event_in_order():
    response = ask(FakeServer(), question="Who?", stream=True)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "content-length" not in response.headers
    names = [name for name, _ in events_of(response.text)]
    assert names == ["node_started", "retrieved", "node_finished", "token", "answer"]
    data = dict(events_of(response.text))
    assert data["token"] == {"node": "answer", "text": "Ada\n…"}
    assert data["node_started"] == {"node": "retrieve", "turn": 0}
    assert data["retrieved"]["passages"][0]["title"] == "Rock 7"
    assert data["answer"]["answer"] == "Ada\n…"


@pytest.mark.parametrize(("error", "status"), ERRORS, ids=lambda v: type(v).__name__)
def test_a_refusal_has_its_status_in_both_modes(error: HeddleError, status: int):
    for stream in (False, True):
        response = ask(FakeServer(refusal=error), question="Who?", stream=stream)
        assert response.status_code == status
        assert message(response) == str(error)
        assert response.json()["error"]["type"] == type(error).__name__
        assert response.headers.get("retry-after") == {503: "3", 507: "60"}.get(status)


@pytest.mark.parametrize(("error", "status"), ERRORS, ids=lambda v: type(v).__name__)
def test_a_failure_later_on(error: HeddleError, status: int):
    failing = FakeServer((NodeStarted("retrieve", 0), RequestFailed(error)))
    assert ask(failing, question="Who?").status_code == status
    name, data = events_of(ask(failing, question="Who?", stream=True).text)[-1]
    assert name == "error"
    assert data["status"] == status
    assert data["error"]["message"] == str(error)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "^question: give one"),
        ({"question": " "}, "^question: is empty"),
        ({"query": "Who?"}, "^query: there is no such field; send question$"),
        ({"question": "Who?", "tpk": 3}, "^tpk: there is no such field; did you mean 'topk'"),
        ({"question": 7}, "question"),
        ({"question": None}, "question"),
        ({"question": "Who?", "workflow": "nope"}, "workflow: 'nope' is unknown.*oneshot"),
        ({"question": "Who?", "deadline_s": 0}, "deadline_s"),
        ({"question": "Who?", "deadline_s": -1}, "deadline_s"),
        ({"question": "Who?", "deadline_s": "soon"}, "deadline_s"),
        ({"question": "Who?", "priority": "urgent"}, "priority"),
        ({"question": "Who?", "stream": "yes"}, "stream"),
        ({"question": "Who?", "tenant": "x" * 257}, "tenant"),
        ({"question": "Who?", "where": {"lang": None}}, "^where: 'lang' must have .*got None$"),
        ({"question": "Who?", "where": {"lang": ["en", {}]}}, "^where: 'lang' .*got {}$"),
        ({"question": "Who?", "where": {"lang": []}}, "^where: 'lang' has no value; name one"),
        ({"question": "Who?", "where": {"": "en"}}, "^where: a key must be"),
        ({"question": "Who?", "where": ["lang"]}, "^where: must be an object$"),
        ({"question": "Who?", "colour": 1}, "colour"),
        ({"question": "Who?", "temperature": 3}, "temperature"),
        ({"question": "Who?", "max_tokens": 0}, "max_tokens"),
        ({"question": "Who?", "system": "x" * 9000}, "system"),
        ({"question": "Who?", "prompt": 3}, "prompt"),
        ({"question": "Who?", "topk": 0}, "topk"),
        ({"question": "Who?", "topk": "3"}, "topk"),
        ({"question": "Who?", "hybrid": "yes"}, "hybrid"),
        ({"question": "Who?", "optimizations": "fast"}, "optimizations"),
        ({"question": "Who?", "kv_reuse": 0.15}, "kv_reuse"),
        ({"question": "Who?", "inputs": ["tides"]}, "inputs"),
        ({"question": "Who?", "constraint": {}}, "^constraint: .*exactly one of json_schema, "),
        ({"question": "Who?", "constraint": {"regex": "a", "choice": ["a"]}}, "^constraint: "),
        (
            {"question": "Who?", "constraint": {"regex": "a", "before": "b"}},
            "^constraint: .*before",
        ),
        (
            {"question": "Who?", "constraint": {"schema": {}}},
            "^constraint.schema: there is no such field",
        ),
        ({"question": "Who?", "constraint": {"choice": []}}, "^choice must have 1 to 1,000 texts"),
        ([], "body"),
        ("Who?", "body"),
    ],
)
def test_a_bad_field_is_named(body: object, word: str):
    server = FakeServer()
    response = call(server, lambda client: client.post("/v1/ask", json=body))
    assert response.status_code == 400
    message(response)
    assert response.json()["error"]["type"] in ("InputError", "WorkflowError")
    assert re.search(word, message(response))
    assert server.asked == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe junk \x80",
        b"{",
        b'{"question": "\\ud800"}',
        b'{"question": "Who?", "deadline_s": NaN}',
        b'{"question": "Who?", "deadline_s": 1e999}',
        b'{"question": "\xff"}',
        b"[" * 100_000,
    ],
)
def test_junk_is_refused(content: bytes):
    response = post(FakeServer(), content)
    assert response.status_code == 400
    assert message(response)


def test_a_body_may_be_one_mebibyte_and_no_more():
    frame = len(b'{"question": ""}')
    exact = b'{"question": "' + b"a" * (BODY_BYTES_MAX - frame) + b'"}'
    assert post(FakeServer(), exact).status_code == 200
    for content in (exact + b" ", parts(exact + b" ")):
        server = FakeServer()
        response = post(server, content)
        assert response.status_code == 413
        assert "1,048,576" in message(response)
        assert server.asked == []


def post(server: FakeServer, content: object) -> httpx.Response:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    return call(server, lambda client: client.post("/v1/ask", content=content, headers=headers))


async def parts(content: bytes):
    """Send without announcing the length."""
    for start in range(0, len(content), 50_000):
        yield content[start : start + 50_000]


def test_only_json_is_taken():
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"Content-Type": kind}
        response = call(
            FakeServer(),
            lambda client, headers=headers: client.post(
                "/v1/ask", content=b'{"question": "Who?"}', headers=headers
            ),
        )
        assert response.status_code == 415
        assert "application/json" in message(response)


def test_a_path_that_is_no_utf_8_keeps_an_error_its_status():
    response = ask(FakeServer(refusal=DiskFull("/data/caf\udce9: the disk is full")), question="x")
    assert response.status_code == 507
    assert message(response) == "/data/caf?: the disk is full"
    damaged = {"status": "degraded", "ready": True, "roles": {}, "notes": {"corpus": ["caf\udce9"]}}
    health = call(FakeServer(health=damaged), lambda client: client.get("/health"))
    assert (health.status_code, health.json()["notes"]) == (200, {"corpus": ["caf?"]})


def test_a_bug_leaks_nothing():
    server, headers = FakeServer(refusal=RuntimeError("secret path")), {"X-Request-ID": "abc-1"}
    body = {"question": "Who?"}
    response = call(server, lambda client: client.post("/v1/ask", json=body, headers=headers))
    assert response.status_code == 500
    assert response.headers["x-request-id"] == "abc-1", "the log names its details by it"
    assert "secret" not in response.text
    assert response.json()["error"]["type"] == "InternalError"


def test_other_addresses_and_methods():
    response = call(FakeServer(), lambda client: client.get("/nope"))
    assert response.status_code == 404
    assert message(response).startswith("there is no GET /nope here")
    response = call(FakeServer(), lambda client: client.get("/v1/ask"))
    assert response.status_code == 405
    assert message(response).startswith("there is no GET /v1/ask here")
    assert response.headers["allow"] == "POST"


def test_the_openapi_document_names_all_that_a_client_must_send():
    described = create_app(FakeServer(), {}).openapi()["paths"]
    parameters = described["/v1/documents"]["delete"]["parameters"]
    assert [(each["name"], each["required"]) for each in parameters] == [
        ("id", True),
        ("tenant", False),
    ]
    body = described["/v1/ask"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for field in ("system", "prompt"):
        assert body["properties"][field]["anyOf"][0]["minLength"] == 1


def test_the_openapi_document_has_the_form_of_errors_for_every_route():
    paths = create_app(FakeServer(), {}).openapi()["paths"]
    found = [operation["responses"] for path in paths.values() for operation in path.values()]
    assert len(found) > 5
    for responses in found:
        form = responses["default"]["content"]["application/json"]["schema"]
        assert form["properties"]["error"]["required"] == ["message", "type", "param", "code"]
    # Not ready is no error: the page says why.
    assert "content" not in paths["/health"]["get"]["responses"]["503"]
    assert "content" not in paths["/ready"]["get"]["responses"]["503"]


def test_the_openapi_document_has_each_media_type_of_a_reply():
    paths = create_app(FakeServer(), {}).openapi()["paths"]
    asked = paths["/v1/ask"]["post"]["responses"]["200"]["content"]
    assert set(asked) == {"application/json", "text/event-stream"}
    measured = paths["/metrics"]["get"]["responses"]["200"]["content"]
    assert set(measured) == {"text/plain", "application/openmetrics-text"}


def test_a_run_is_ended_for_its_tenant_and_a_name_that_is_none_is_refused():
    ended: list[tuple[str, str]] = []
    server = FakeServer()
    server.cancel_run = lambda run, tenant: ended.append((run, tenant))
    reply = call(server, lambda client: client.delete("/v1/runs/run-1?tenant=ann"))
    assert (reply.status_code, reply.json()) == (202, {"run": "run-1"})
    assert ended == [("run-1", "ann")]
    refused = call(server, lambda client: client.delete("/v1/runs/a%20b"))
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "run"


def test_the_names_of_the_workflows():
    response = call(FakeServer(), lambda client: client.get("/v1/workflows"))
    assert response.json() == {"workflows": ["oneshot"], "default": "oneshot"}
    quoting = FakeServer()
    quoting.config = ServerConfig()
    response = call(quoting, lambda client: client.get("/v1/workflows"))
    assert response.json() == {"workflows": ["oneshot"], "default": None}, "quote isn't served"


@pytest.mark.parametrize(
    ("state", "is_ready", "status", "unserved"),
    [
        ("ok", True, 200, {}),
        ("degraded", True, 200, {}),
        ("degraded", False, 503, {"unserved": ["llm"]}),
    ],
)
def test_health(state: str, is_ready: bool, status: int, unserved: dict[str, list[str]]):
    roles = {"search": ["retrieval"], "llm": ["llm-both-1"] if is_ready else []}
    server = FakeServer(health={"status": state, "ready": is_ready, "roles": roles})
    response = call(server, lambda client: client.get("/health"))
    assert response.status_code == status
    assert response.json() == server.found
    short = call(server, lambda client: client.get("/ready"))
    assert (short.status_code, short.json()) == (status, {"ready": is_ready, **unserved})


def test_a_server_that_stops_is_not_ready_and_says_which_it_is():
    drain = Drain()
    drain.begin()

    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(create_app(FakeServer(), {}, drain=drain))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.get(path) for path in ("/ready", "/version")]

    ready, version = asyncio.run(run())
    assert (ready.status_code, ready.json()) == (503, {"ready": False})
    assert version.json() == {"name": "heddle", "version": __version__}


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_request(stream: bool):
    server = FakeServer((NodeStarted("retrieve", 0),))

    async def run() -> list[dict]:
        gone = asyncio.Event()
        body = json.dumps({"question": "Who?", "stream": stream}).encode()
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict] = []

        async def receive() -> dict:
            if messages:
                return messages.pop()
            if not stream:
                gone.set()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(part: dict) -> None:
            sent.append(part)
            if b"node_started" in part.get("body", b""):
                gone.set()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/ask",
            "raw_path": b"/v1/ask",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
        }
        async with asyncio.timeout(10):
            await create_app(server, WORKFLOWS)(scope, receive, send)
        return sent

    sent = asyncio.run(run())
    assert server.cancels == 1
    assert server.handle.is_done
    if not stream:
        assert sent[0]["status"] == 499


def test_a_client_that_leaves_while_it_sends():
    server = FakeServer()

    async def run() -> None:
        async def receive() -> dict:
            return {"type": "http.disconnect"}

        async def send(part: dict) -> None:
            assert part.get("status", 499) == 499

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/ask",
            "raw_path": b"/v1/ask",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
        }
        await create_app(server, WORKFLOWS)(scope, receive, send)

    asyncio.run(run())
    assert server.asked == []


class FakeCorpus(FakeServer):
    """Takes documents, and knows one that can be deleted."""

    def upsert(self, document_id: str, text: str, **how: object) -> DocumentChange:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((document_id, text, how))
        return DocumentChange(PutOutcome.ADDED, Embedded(2, truncated=1), revision=7)

    def delete(self, document_id: str, *, tenant: str) -> bool:
        self.asked.append((document_id, "", {"tenant": tenant}))
        return document_id == "a/b c"


def change(server: FakeServer, method: str, *, takes_changes: bool = True, **how: object):
    async def run() -> httpx.Response:
        app = create_app(server, WORKFLOWS, takes_changes=takes_changes)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, "/v1/documents", **how)

    return asyncio.run(run())


def test_a_document_is_put_and_what_that_did_is_told():
    server = FakeCorpus()
    body = {"id": "a/b c", "text": "Ada", "tenant": "ann", "metadata": {"year": 2020}}
    body["collection"] = "tides"
    response = change(server, "POST", json=body)
    assert response.status_code == 200
    assert response.json() == {
        "outcome": "added",
        "chunks": 2,
        "truncated": 1,
        "windowed": 0,
        "revision": 7,
    }
    how = {"title": "", "metadata": {"year": 2020}, "tenant": "ann", "collection": "tides"}
    assert server.asked == [("a/b c", "Ada", how)]


def test_a_tenants_document_is_deleted_and_one_that_is_not_there_is_said():
    server = FakeCorpus()
    response = change(server, "DELETE", params={"id": "a/b c", "tenant": "ann"})
    assert (response.status_code, response.json()) == (200, {"deleted": "a/b c"})
    response = change(server, "DELETE", params={"id": "other"})
    assert response.status_code == 404
    assert "'other'" in message(response)
    assert server.asked == [("a/b c", "", {"tenant": "ann"}), ("other", "", {"tenant": ""})]


@pytest.mark.parametrize(
    ("method", "how", "word"),
    [
        ("POST", {"json": {"id": "", "text": "x"}}, "id"),
        ("POST", {"json": {"id": "x"}}, "text"),
        ("POST", {"json": {"id": "x", "text": "x", "vector": [1]}}, "vector"),
        ("DELETE", {}, "id=ID"),
        ("DELETE", {"params": {"id": "x", "where": "y"}}, "id=ID"),
        ("DELETE", {"params": {"id": ["x", "y"]}}, "id=ID"),
        ("DELETE", {"params": {"id": "x", "tenant": ["y", "z"]}}, "id=ID"),
    ],
)
def test_a_bad_change_is_refused(method: str, how: dict[str, object], word: str):
    server = FakeCorpus()
    response = change(server, method, **how)
    assert response.status_code == 400
    assert word in message(response)
    assert not server.asked


def test_nothing_is_changed_unless_the_operator_allows_it():
    server = FakeCorpus()
    for method, how in (("POST", {"content": b"x" * 9}), ("DELETE", {"params": {"id": "a/b c"}})):
        response = change(server, method, takes_changes=False, **how)
        assert response.status_code == 403
        assert "--allow-changes" in message(response)
    assert not server.asked


def test_questions_are_answered_while_documents_wait_for_their_vectors():
    class SlowCorpus(FakeCorpus):
        begun, may_end = asyncio.Semaphore(0), threading.Event()

        def upsert(self, *document: object, **how: object) -> DocumentChange:
            loop.call_soon_threadsafe(self.begun.release)
            assert self.may_end.wait(WAIT_S)
            return super().upsert(*document, **how)

    async def run() -> list[int]:
        server = SlowCorpus()
        transport = httpx.ASGITransport(create_app(server, WORKFLOWS, takes_changes=True))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            document = {"id": "x", "text": "x"}
            puts = [client.post("/v1/documents", json=document) for _ in range(CHANGES_AT_ONCE + 2)]
            putting = asyncio.gather(*puts)
            try:
                for _ in range(CHANGES_AT_ONCE):
                    await server.begun.acquire()
                asked = client.post("/v1/ask", json={"question": "Who?"})
                answer = await asyncio.wait_for(asked, WAIT_S / 2)
            finally:
                server.may_end.set()
            return [response.status_code for response in (answer, *await putting)]

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        assert runner.run(run()) == [200] * (CHANGES_AT_ONCE + 3)


def test_a_request_beyond_the_limit_is_refused():
    class SlowCorpus(FakeCorpus):
        begun, may_end = asyncio.Event(), threading.Event()

        def upsert(self, *document: object, **how: object) -> DocumentChange:
            loop.call_soon_threadsafe(self.begun.set)
            assert self.may_end.wait(WAIT_S)
            return super().upsert(*document, **how)

    async def run() -> list[int]:
        server = SlowCorpus()
        app = create_app(server, WORKFLOWS, takes_changes=True, requests_max=1)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            document = {"id": "x", "text": "x"}
            putting = asyncio.create_task(client.post("/v1/documents", json=document))
            await server.begun.wait()
            asked = [await client.post("/v1/ask", json={"question": "Who?"})]
            server.may_end.set()
            asked += [await putting, await client.post("/v1/ask", json={"question": "Who?"})]
            return [response.status_code for response in asked]

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        assert runner.run(run()) == [503, 200, 200]


def test_a_full_disk_is_told():
    server = FakeCorpus(refusal=DiskFull("the disk is full"))
    response = change(server, "POST", json={"id": "x", "text": "x"})
    assert response.status_code == 507
    assert response.headers["Retry-After"] == "60"
    assert message(response) == "the disk is full"
