"""The HTTP application on a server that does only what a test says."""

import asyncio
import json
import re
from collections.abc import Callable

import httpx
import pytest

from heddle.core.errors import (
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    HeddleError,
    InputError,
    InternalError,
    StorageError,
    WorkflowError,
)
from heddle.core.passages import Passage
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
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
from heddle.server.http import create_app
from heddle.server.json_body import BODY_BYTES_MAX
from heddle.workflow.presets import preset

PASSAGE = Passage(7, "doc-7", "Rock 7", "Its keeper is “Ada”.\n", 0.25)
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
WORKFLOWS = {"oneshot": preset("oneshot").compile()}
ERRORS = [
    (InputError("question is empty"), 400),
    (WorkflowError("node 'x' loops"), 400),
    (ConfigError("node 'answer' needs decoding, and no engine here does that"), 400),
    (Busy("2 of 2 requests are in flight", wait_s=2.2), 503),
    (DeadlineExceeded("no answer within 1.0 s"), 504),
    (EngineError("lane lost", engine="llm", request_ids=(1,)), 500),
    (StorageError("the disk is full"), 500),
    (InternalError("KeyError: 'x'"), 500),
]


class FakeServer:
    """Pushes events into the handle it returns, or refuses."""

    def __init__(
        self,
        events: tuple[RequestEvent, ...] = EVENTS,
        refusal: Exception | None = None,
        health: dict[str, object] | None = None,
    ) -> None:
        self.events = events
        self.refusal = refusal
        self.found = health or {"status": "ok", "ready": True}
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

    def _cancel(self) -> None:
        self.cancels += 1
        if not self.handle.is_done:
            self.handle.push(RequestFailed(Cancelled("cancelled by the caller")))

    def health(self) -> dict[str, object]:
        return self.found


def call(server: FakeServer, work: Callable[[httpx.AsyncClient], object]) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(server, WORKFLOWS), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://heddle") as client:
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


def test_an_answer_with_its_passages_and_receipt():
    server = FakeServer()
    response = ask(server, question="Who?")
    assert response.status_code == 200
    found = response.json()
    assert found["answer"] == "Ada\n…"
    assert found["passages"] == [
        {"title": "Rock 7", "text": PASSAGE.text, "document_id": "doc-7", "distance": 0.25}
    ]
    assert found["receipt"]["optimizations"] == "exact"
    assert found["receipt"]["spans"][0]["kind"] == PrimitiveKind.DECODING.value
    assert server.cancels == 0


def test_every_field_reaches_the_server():
    server = FakeServer()
    where = {"lang": "en", "year": [2020, 2021], "draft": False}
    ask(server, question="Who?", deadline_s=2, priority="bulk", tenant="ann", where=where)
    how = {"deadline_s": 2, "priority": "bulk", "tenant": "ann", "where": where}
    assert server.asked == [(WORKFLOWS["oneshot"], "Who?", how)]


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
        assert response.headers.get("retry-after") == ("3" if status == 503 else None)


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
        ({}, "question"),
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
        ({"question": "Who?", "where": ["lang"]}, "^where: Input should be an object$"),
        ({"question": "Who?", "temperature": 1}, "temperature"),
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


def test_a_bug_leaks_nothing():
    response = ask(FakeServer(refusal=RuntimeError("secret path")), question="Who?")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["error"]["type"] == "InternalError"


def test_other_addresses_and_methods():
    response = call(FakeServer(), lambda client: client.get("/nope"))
    assert response.status_code == 404
    assert message(response) == "Not Found"
    response = call(FakeServer(), lambda client: client.get("/v1/ask"))
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


def test_the_names_of_the_workflows():
    response = call(FakeServer(), lambda client: client.get("/v1/workflows"))
    assert response.json() == {"workflows": ["oneshot"]}


@pytest.mark.parametrize(
    ("state", "is_ready", "status"),
    [("ok", True, 200), ("degraded", True, 200), ("degraded", False, 503)],
)
def test_health(state: str, is_ready: bool, status: int):
    server = FakeServer(health={"status": state, "ready": is_ready})
    response = call(server, lambda client: client.get("/health"))
    assert response.status_code == status
    assert response.json() == {"status": state, "ready": is_ready}


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
