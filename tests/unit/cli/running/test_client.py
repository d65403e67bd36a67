"""Asking the server that runs on a corpus: a real HTTP front over a server that only replies."""

import dataclasses
import logging
import os
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import uvicorn

from heddle import ConfigError, EngineError, InputError, ServerConfig
from heddle.app.config_sources import Choice
from heddle.app.setting import fields_of
from heddle.cli.main import main
from heddle.cli.running.advert import ServerAdvert, advertised
from heddle.cli.running.client import RunningServer, find_server, request_settings
from heddle.cli.running.decode import passages_of
from heddle.core.passages import Passage, Place
from heddle.core.primitives import PrimitiveKind
from heddle.core.quotations import Quotation
from heddle.core.results import RecallEstimate
from heddle.core.tasks import Optimizations
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestEvent,
    Retrieved,
    TokenDelta,
)
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import ReceiptDraft, Span
from heddle.server.bounded_connection import BoundedConnection
from heddle.server.http import create_app
from heddle.server.keys.api_key import ApiKey, KeyScope, digest_of
from heddle.server.keys.key_ring import KeyRing
from heddle.server.tls import certificate_digest, tls_context
from heddle.server.tls_connection import TlsConnection
from heddle.workflow.presets import preset
from tests.helpers.certificates import Certificate, self_signed
from tests.helpers.fake_endpoint import FakeEndpoint, plain

PASSAGE = Passage(7, "d", "Rock 7", "It is high. Ada keeps it.", 0.25, place=Place("r.pdf", 3))
SPAN = Span("answer.decode@0", "answer", PrimitiveKind.DECODING, "llm", 0.1, 0.2, 0.3)
RECEIPT = ReceiptDraft(
    generated_tokens=2, spans=[SPAN], recall=RecallEstimate(0.98, 0.95, 200)
).close(Optimizations.EXACT, 0.5, "exact")
QUOTE = Quotation("Ada", "Ada keeps it.", PASSAGE, 12, 15, 12, 4.5)
EVENTS: tuple[RequestEvent, ...] = (
    NodeStarted("retrieve", 0),
    Retrieved("retrieve", (PASSAGE,)),
    NodeFinished("retrieve", 0),
    TokenDelta("answer", "Ada\n"),
    Answer("Ada", (PASSAGE,), {}, RECEIPT, (QUOTE,)),
)
CONFIG = ServerConfig(index="corpus")


class Replying:
    config = CONFIG

    def __init__(self) -> None:
        self.refusal: Exception | None = None
        self.asked: list[dict[str, object]] = []

    def submit(self, workflow: object, inputs: object, **how: object) -> Handle:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(how)
        handle = Handle(lambda: None)
        for event in EVENTS:
            handle.push(event)
        return handle

    def submit_search(self, query: str, **how: object) -> Handle:
        return self.submit(None, query, **how)

    def health(self) -> dict[str, object]:
        return {"status": "ok", "ready": True, "roles": {}}


class Front:
    """The HTTP front in a thread of this process."""

    def __init__(self, keys: KeyRing | None = None, tls: Certificate | None = None) -> None:
        self.server = Replying()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        advert = ServerAdvert.of(
            CONFIG,
            "127.0.0.1",
            listener.getsockname()[1],
            needs_key=keys is not None,
            certificate="" if tls is None else certificate_digest(tls.certificate),
        )
        assert advert is not None
        self.advert = advert
        workflows = {"quote": preset("quote").compile()}
        app = create_app(self.server, workflows, instance=advert.instance, keys=keys)
        http = BoundedConnection if tls is None else partial(TlsConnection, tls_context(*tls))
        settings = uvicorn.Config(app, log_level="critical", lifespan="off", http=http)
        self.http = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self.http.run, kwargs={"sockets": [listener]})
        self.thread.start()

    def stop(self) -> None:
        self.http.should_exit = True
        self.thread.join()


@pytest.fixture
def front() -> Iterator[Front]:
    running = Front()
    yield running
    running.stop()


def chosen(**values: object) -> dict[str, Choice]:
    known = fields_of(ServerConfig)
    return {name: Choice(known[name], value, known[name].flag) for name, value in values.items()}


def test_events_come_back_as_they_were(front: Front):
    events = list(RunningServer(front.advert).ask({"question": "Who?", "max_tokens": 3}))
    assert events[:-1] == list(EVENTS[:-1])
    answer = events[-1]
    assert isinstance(answer, Answer)
    assert (answer.text, answer.passages, answer.receipt) == ("Ada", (PASSAGE,), RECEIPT)
    [quote] = answer.quotes
    assert (quote.text, quote.sentence, quote.score) == ("Ada", "Ada keeps it.", 4.5)
    assert quote.passage.place.start + quote.start == 12, "in the document"
    assert front.server.asked[0]["max_tokens"] == 3


def test_a_search_comes_back(front: Front):
    reply = RunningServer(front.advert).search({"query": "rocks", "topk": 2})
    assert passages_of(reply) == (PASSAGE,)


def test_a_refusal_is_the_error_that_it_was(front: Front):
    front.server.refusal = InputError("topk must be less")
    with pytest.raises(InputError, match="topk must be less"):
        list(RunningServer(front.advert).ask({"question": "Who?"}))
    front.server.refusal = ConfigError("no model ranks")
    with pytest.raises(ConfigError, match="no model ranks"):
        RunningServer(front.advert).search({"query": "x"})


def test_it_is_found_while_it_answers(front: Front, tmp_path: Path):
    config = ServerConfig(index=tmp_path)
    assert find_server(config, {}) is None
    with advertised(tmp_path, front.advert):
        found = find_server(config, chosen(index=tmp_path, max_tokens=3, generator="extract"))
        assert found == RunningServer(front.advert)
        assert find_server(ServerConfig("reader", tmp_path), chosen(generator="reader")) is None
        front.stop()
        assert find_server(config, {}) is None
        with pytest.raises(EngineError, match="went away: ask again, or with --no-server"):
            list(RunningServer(front.advert).ask({"question": "Who?"}))


def test_a_search_asks_no_server_that_would_search_otherwise(
    front: Front, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def start(config: ServerConfig) -> None:
        raise InputError(f"started with {config.optimizations}")

    monkeypatch.setattr("heddle.cli.search.start_server", start)
    search = ["search", str(tmp_path), "rocks", "--deadline-s", "3"]
    with advertised(tmp_path, front.advert):
        assert main(search) == 0
        assert main([*search, "--optimizations", "exact"]) == 2
    assert "started with Optimizations.EXACT" in capsys.readouterr().err
    assert [how["deadline_s"] for how in front.server.asked] == [3.0]


def test_of_a_server_that_was_killed_nothing_is_said(
    front: Front, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    child = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(child, 0)
    with advertised(tmp_path, dataclasses.replace(front.advert, pid=child)):
        caplog.set_level(logging.WARNING)
        assert find_server(ServerConfig("reader", tmp_path), chosen(generator="reader")) is None
    assert not caplog.records


def test_another_server_on_its_port_is_not_asked(front: Front, tmp_path: Path):
    stale = ServerAdvert.of(CONFIG, "127.0.0.1", front.advert.port)
    with advertised(tmp_path, stale):
        assert find_server(ServerConfig(index=tmp_path), {}) is None


def test_json_of_another_server_that_is_nested_too_deeply_is_no_answer(front: Front):
    deep = plain(200, "[" * 50_000, kind="text/event-stream")
    said = plain(200, "event: token\ndata: " + "[" * 50_000 + "\n\n", kind="text/event-stream")
    others = {"/health": deep, "/search": deep, "/ask": said}
    with FakeEndpoint(others=others) as other:
        server = RunningServer(dataclasses.replace(front.advert, port=other.port))
        assert server.health() == {}
        with pytest.raises(EngineError, match="went away"):
            server.search({"query": "rocks"})
        with pytest.raises(EngineError, match="went away"):
            list(server.ask({"question": "Who?"}))
        others["/search"] = plain(500, "[" * 50_000)
        with pytest.raises(EngineError, match="went away"):
            server.search({"query": "rocks"})


def test_settings_of_a_request_go_with_it():
    config = ServerConfig(index="c", deadline_s=3.0, optimizations=Optimizations.EXACT)
    given = chosen(deadline_s=3.0, optimizations="exact", kv_reuse="full", shards=1)
    assert request_settings(config, given) == {
        "deadline_s": 3.0,
        "optimizations": "exact",
        "kv_reuse": "full,0.15",
    }
    assert request_settings(config, {}) == {}


def test_a_request_can_do_without_the_answer_cache_of_a_server():
    without = chosen(answer_cache="off")
    assert request_settings(ServerConfig(index="c"), without) == {"answer_cache": False}
    kept = ServerConfig(index="c", answer_cache="exact")
    assert request_settings(kept, chosen(answer_cache="exact")) == {}


@pytest.fixture
def closed() -> Iterator[Front]:
    """A front that asks for a key: `hush` may ask, for the tenant acme."""
    key = ApiKey("me", digest_of("hush"), "acme", frozenset({KeyScope.ASK}))
    running = Front(KeyRing([key]))
    yield running
    running.stop()


def test_a_server_with_keys_is_sent_the_users_own(
    closed: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEDDLE_API_KEY", "hush\n")
    with advertised(tmp_path, closed.advert):
        found = find_server(ServerConfig(index=tmp_path), {})
    assert found is not None
    assert "hush" not in repr(found)
    assert passages_of(found.search({"query": "rocks"})) == (PASSAGE,)
    assert isinstance(list(found.ask({"question": "Who?"}))[-1], Answer)
    assert [how["tenant"] for how in closed.server.asked] == ["acme", "acme"]
    with pytest.raises(ConfigError, match=r"tenant: this key is for the tenant 'acme'.*--no-serv"):
        found.search({"query": "rocks", "tenant": "B"})


def test_a_server_with_keys_is_not_asked_without_one(
    closed: Front, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("HEDDLE_API_KEY", raising=False)
    with advertised(tmp_path, closed.advert):
        assert find_server(ServerConfig(index=tmp_path), {}) is None
    assert "and one is started: it asks for a key: set HEDDLE_API_KEY" in caplog.text


def test_the_health_of_the_server_of_the_advert_and_of_no_other(front: Front):
    assert RunningServer(front.advert).health()["status"] == "ok"
    other = dataclasses.replace(front.advert, instance="another")
    assert RunningServer(other).health() == {}


def test_a_key_that_the_server_does_not_know_is_an_error(closed: Front):
    server = RunningServer(closed.advert, "other")
    for work in (lambda: server.search({"query": "x"}), lambda: list(server.ask({}))):
        with pytest.raises(ConfigError, match=r"doesn't know the key.*HEDDLE_API_KEY") as refused:
            work()
        assert "other" not in str(refused.value)


@pytest.mark.parametrize("key", ["a b", "a\nb: c", "é"])
def test_a_key_that_no_header_holds(
    key: str, closed: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEDDLE_API_KEY", key)
    with (
        advertised(tmp_path, closed.advert),
        pytest.raises(ConfigError, match="HEDDLE_API_KEY holds a character"),
    ):
        find_server(ServerConfig(index=tmp_path), {})


def test_a_server_without_keys_is_sent_none(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEDDLE_API_KEY", "hush")
    with advertised(tmp_path, front.advert):
        assert find_server(ServerConfig(index=tmp_path), {}) == RunningServer(front.advert, "")


def test_a_file_of_another_user_gets_no_key(
    closed: Front, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEDDLE_API_KEY", "hush")
    with advertised(tmp_path, closed.advert):
        owner = (tmp_path / "server.json").stat().st_uid
        if owner == 0:
            os.chown(tmp_path / "server.json", 12_345, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        assert find_server(ServerConfig(index=tmp_path), {}) is None
    assert "is another user's" in caplog.text


def test_over_tls_only_the_certificate_that_it_named_is_spoken_to(tmp_path: Path):
    made = self_signed(tmp_path)
    front = Front(tls=made)
    try:
        config = ServerConfig(index=tmp_path)
        with advertised(tmp_path, front.advert):
            found = find_server(config, {})
        assert found is not None
        assert found.url.startswith("https://127.0.0.1:")
        assert passages_of(found.search({"query": "rocks"})) == (PASSAGE,)
        other = dataclasses.replace(front.advert, certificate="0" * 64)
        with advertised(tmp_path, other):
            assert find_server(config, {}) is None
        with pytest.raises(EngineError, match="went away"):
            RunningServer(other, "hush").search({"query": "rocks"})
        assert len(front.server.asked) == 1
    finally:
        front.stop()
