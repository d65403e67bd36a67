"""A running server by its address: what its connections leave behind."""

import asyncio
import gc
import json
import math
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from weakref import ref

import httpx
import pytest

from heddle.adapters import by_url
from heddle.adapters.by_url import ByUrl
from heddle.adapters.loop_clients import LoopClients
from heddle.adapters.values import ChatCall, EmbedCall, Found, SearchCall
from heddle.adapters.wrapping import Wrapping
from heddle.app.requests.call_identity import CallIdentity
from heddle.core.errors import DeadlineExceeded, EngineError, InputError
from heddle.core.tasks import Caller
from tests.helpers.certificates import Certificate, self_signed
from tests.helpers.fake_endpoint import FakeEndpoint, Reply, Step, piece, plain, stream_head
from tests.helpers.open_files import check_none_left, open_files

CALL = SearchCall("Who keeps it?", topk=1)


@pytest.fixture
def server() -> Iterator[FakeEndpoint]:
    found = plain(200, {"passages": []})
    with FakeEndpoint(others={"/search": found, "/models": models("tiny")}) as running:
        yield running


def test_each_asyncio_run_closes_its_connections(server: FakeEndpoint) -> None:
    engine = ByUrl(server.url)

    async def twice() -> None:
        await engine.asearch(CALL)
        await engine.asearch(CALL)

    before = open_files()
    for _ in range(3):
        asyncio.run(twice())
    check_none_left(before)
    assert server.connections == 3, "both calls of a loop share one"


def test_a_stream_that_is_left_half_read_is_closed_with_its_loop(server: FakeEndpoint) -> None:
    server.replies.append((stream_head(), piece("Ada "), Step.HANG))
    engine = ByUrl(server.url)
    left = []

    async def begin() -> object:
        stream = engine.achat(ChatCall([{"role": "user", "content": "Who?"}]))
        left.append(stream)
        return await anext(stream)

    before = open_files()
    assert asyncio.run(begin()) == "Ada "
    check_none_left(before)


def test_a_loop_has_one_client_and_the_next_loop_another() -> None:
    clients = LoopClients(httpx.AsyncClient)

    async def both() -> list[httpx.AsyncClient]:
        return await asyncio.gather(clients.client(), clients.client())

    first, same = asyncio.run(both())
    assert first is same
    assert first.is_closed
    other, _ = asyncio.run(both())
    assert other is not first


def test_a_loop_that_is_closed_without_its_generators_is_dropped_with_its_client() -> None:
    clients = LoopClients(httpx.AsyncClient)
    kept = []
    for _ in range(3):
        loop = asyncio.new_event_loop()
        kept.append(ref(loop.run_until_complete(clients.client())))
        loop.close()
    del loop
    gc.collect()
    assert [one() is None for one in kept] == [True, True, False], "the next call drops the last"


def test_json_that_is_nested_too_deeply_is_no_reply_of_heddle(server: FakeEndpoint) -> None:
    server.others["/search"] = plain(200, "[" * 50_000)
    with pytest.raises(EngineError, match="something else than JSON"):
        ByUrl(server.url).search(CALL)


@pytest.mark.parametrize(("deadline_s", "sent_s"), [(math.inf, 1e9), (1e300, 1e9), (5e6, 5e6)])
def test_a_deadline_that_hardly_comes_is_sent_as_json_has_it(
    server: FakeEndpoint, deadline_s: float, sent_s: float
) -> None:
    engine, call = ByUrl(server.url), SearchCall("Who?", deadline_s=deadline_s)
    assert engine.search(call) == asyncio.run(engine.asearch(call)) == Found(())
    assert [asked.body["deadline_s"] for asked in server.asked] == [sent_s, sent_s]
    run = Wrapping.of({}, {}, {"deadline_s": deadline_s}).begin()
    assert engine.search(CALL, run.identity("node", 0)) == Found(())
    assert server.asked[-1].headers.get("x-heddle-deadline") != "inf"


@pytest.mark.parametrize("deadline_s", [math.nan, "soon"])
def test_a_deadline_that_is_no_number_is_refused(server: FakeEndpoint, deadline_s: object) -> None:
    with pytest.raises(InputError, match="deadline_s must be"):
        ByUrl(server.url).search(SearchCall("Who?", deadline_s=deadline_s))
    assert not server.asked


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [
        ([f"text {number}" for number in range(4_100)], [2_048, 2_048, 4]),
        (["字" * 200_000, "字" * 200_000, "b"], [1, 2]),
        (["a" * 300, "字" * 1_000], [2]),
    ],
)
def test_many_texts_are_embedded_in_requests_that_a_server_takes(
    texts: list[str], sizes: list[int]
) -> None:
    with FakeEndpoint(dims=4) as server:
        engine, call = ByUrl(server.url), EmbedCall(texts)
        found = engine.embed(call)
        again = asyncio.run(engine.aembed(call))
        bodies = [asked.body for asked in server.asked]
        assert [engine.embed(EmbedCall([one])).vectors[0] for one in texts[-3:]] == [
            *found.vectors[-3:]
        ]
    assert [len(body["input"]) for body in bodies] == [*sizes, *sizes]
    assert [text for body in bodies[: len(sizes)] for text in body["input"]] == texts
    assert all(len(json.dumps(body, ensure_ascii=False).encode()) < 1 << 20 for body in bodies)
    assert found == again
    assert (len(found.vectors), found.tokens) == (len(texts), 7 * len(sizes))


def test_later_requests_of_many_texts_have_what_is_left_of_the_time() -> None:
    texts, caller = ["字" * 300_000] * 2, Caller("run-1", "node", 0)
    with FakeEndpoint(dims=4) as server:
        ByUrl(server.url).embed(EmbedCall(texts, deadline_s=60.0), CallIdentity(caller, 50.0))
        first, second = server.asked
    assert first.body["deadline_s"] == 60.0 > second.body["deadline_s"] > 0
    assert float(first.headers["x-heddle-deadline"]) == 50.0
    assert float(second.headers["x-heddle-deadline"]) < 50.0


def models(name: str) -> Reply:
    """Return a server's list of models, of which one writes."""
    return plain(200, {"data": [{"id": name, "kind": "llm"}]})


def said(engine: ByUrl, is_async: bool) -> str:
    """Return the text of an answer."""
    call = ChatCall([{"role": "user", "content": "Who?"}])

    async def ask() -> list[object]:
        return [item async for item in engine.achat(call)]

    *pieces, reply = asyncio.run(ask()) if is_async else engine.chat(call)
    assert "".join(pieces) == reply.text
    return reply.text


@pytest.mark.parametrize("is_async", [False, True])
def test_a_server_that_is_started_with_another_model_goes_on_answering(
    server: FakeEndpoint, is_async: bool
) -> None:
    error = {"message": "model: it is not offered here", "code": "model_not_found"}
    engine = ByUrl(server.url)
    assert said(engine, is_async) == "Ada keeps it."
    server.others["/models"] = models("large")
    server.instead = lambda asked: (
        plain(404, {"error": error}) if asked.body and asked.body.get("model") == "tiny" else None
    )
    assert said(engine, is_async) == "Ada keeps it."
    assert [one.body["model"] for one in server.generations] == ["tiny", "tiny", "large"]
    server.others["/models"] = models("tiny")
    engine = ByUrl(server.url)
    with pytest.raises(InputError, match="not offered here"):
        said(engine, is_async)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_server_that_is_silent_about_its_models_is_late_as_the_call_is(
    server: FakeEndpoint, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_url, "AFTER_S", 0.0)
    server.others["/models"] = (Step.HANG,)
    call = ChatCall([{"role": "user", "content": "Who?"}], deadline_s=0.05)

    async def ask() -> None:
        async for _ in ByUrl(server.url).achat(call):
            pass

    with pytest.raises(DeadlineExceeded, match="has not answered in time"):
        asyncio.run(ask()) if is_async else list(ByUrl(server.url).chat(call))


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Certificate]]:
    """The address of a server whose certificate no authority has signed, and the certificate."""
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "16")
            self.end_headers()
            self.wfile.write(b'{"passages": []}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}", certificate
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_certificate_of_ones_own_is_trusted_where_it_is_named(
    secure: tuple[str, Certificate], is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> Found:
        engine = ByUrl(secure[0])
        return asyncio.run(engine.asearch(CALL)) if is_async else engine.search(CALL)

    with pytest.raises(EngineError, match="certificate that isn't trusted here: SSL_CERT_FILE"):
        found()
    monkeypatch.setenv("SSL_CERT_FILE", str(secure[1].certificate))
    assert found() == Found(())
