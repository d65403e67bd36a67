"""What is found out of remote models at the start, and what stops it."""

import asyncio
from collections.abc import Iterator

import pytest

from heddle.app.models.remote_models import (
    NO_REMOTE_MODELS,
    open_remote_embedder,
    open_remote_models,
    run_apart,
)
from heddle.core.errors import InputError
from heddle.engines.remote.dialect import Dialect
from tests.helpers.fake_endpoint import (
    END,
    Asked,
    FakeEndpoint,
    Reply,
    Step,
    chunk,
    plain,
    stream_head,
)


@pytest.fixture
def fake() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(dims=32, ranks=True) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HEDDLE_REMOTE_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_without_remote_names_no_server_is_asked() -> None:
    assert open_remote_models("extract", None, "extract") == NO_REMOTE_MODELS
    assert not NO_REMOTE_MODELS.are_there
    assert list(NO_REMOTE_MODELS.lines()) == []


def test_all_three_kinds_of_model_are_found(fake: FakeEndpoint) -> None:
    models = open_remote_models(fake.url, fake.url, fake.url)
    assert models.generator is not None
    assert models.embedder is not None
    assert models.reranker is not None
    assert models.generator.first.model == "fake-model"
    assert models.generator.first.dialect is Dialect.CHAT
    assert models.embedder.first.dims == 32
    assert models.embedder.first.fingerprint.startswith("remote-fake-model-32-")
    assert models.reranker.first.call == "/rerank"
    text = "\n".join(models.lines())
    assert text.count(f"go to {fake.url} (this machine), model 'fake-model'") == 3
    assert fake.generations == [], "nothing is generated to find out"


def test_a_server_without_chats_completes_texts(fake: FakeEndpoint) -> None:
    fake.has_chat = False
    generator = open_remote_models(fake.url, None, None).generator
    assert generator is not None
    assert generator.first.dialect is Dialect.COMPLETIONS


def test_vllm_says_how_long_its_context_is(fake: FakeEndpoint) -> None:
    entry = {"id": "m", "owned_by": "vllm", "max_model_len": 4096}
    fake.others["/models"] = plain(200, {"data": [entry]})
    models = open_remote_models(fake.url, None, None)
    assert models.context_tokens_max == 4096
    assert "run by vllm" in next(models.lines())


def test_a_key_is_sent_and_never_shown(fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDDLE_REMOTE_KEY", "very-secret")
    models = open_remote_models(fake.url, None, None)
    assert fake.asked[0].headers["authorization"] == "Bearer very-secret"
    shown = "\n".join(models.lines()) + repr(models)
    assert "very-secret" not in shown
    assert "HEDDLE_REMOTE_KEY" in shown


PAGE = plain(200, "<html>Welcome to nginx!</html>", kind="text/html")
REFUSALS = {
    "a web page": ({"/models": PAGE}, "web page"),
    "no JSON": ({"/models": plain(200, "{oh no")}, "no JSON"),
    "no list": ({"/models": plain(200, {"data": 3})}, "can't be read"),
    "a key wanted": ({"/models": plain(401, {})}, "wants a key (401); set HEDDLE_REMOTE_KEY"),
    "an error of its own": ({"/models": plain(500, "secret traceback")}, "(500)"),
    "a redirect": ({"/models": plain(301, "", "Location: http://x.example/\r\n")}, "redirects"),
    "no models": ({"/models": plain(200, {"data": []})}, "no model loaded"),
    "no such calls": (
        {"/chat/completions": plain(404, ""), "/completions": PAGE},
        "neither /chat/completions nor /completions",
    ),
    "another protocol": ({"/models": (b"220 smtp ready\r\n",)}, "no API of models"),
    "a cut": ({"/models": (Step.CUT,)}, "connection"),
    "an endless list": (
        {"/models": (stream_head("application/json"), *[chunk(b" " * 65536)] * 80, END)},
        "more than",
    ),
}


@pytest.mark.parametrize("how", REFUSALS)
def test_what_is_no_model_server_is_refused_in_own_words(fake: FakeEndpoint, how: str) -> None:
    replies, words = REFUSALS[how]
    fake.others.update(replies)
    with pytest.raises(InputError) as refused:
        open_remote_models(fake.url, None, None)
    message = str(refused.value)
    assert message.startswith(f"--model: {fake.url} ")
    assert words in message
    assert not any(text in message for text in ("nginx", "traceback", "x.example", "smtp"))


def test_no_such_model_lists_those_that_there_are(fake: FakeEndpoint) -> None:
    fake.models = ("one", "two\x1b[31m", "three:latest")
    with pytest.raises(InputError, match=r"has no model 'four'; it offers one, two\?\[31m, three"):
        open_remote_models(f"{fake.url}#four", None, None)
    with pytest.raises(InputError, match="several models: add #NAME"):
        open_remote_models(fake.url, None, None)
    found = open_remote_models(f"{fake.url}#three", None, None).generator
    assert found is not None
    assert found.first.model == "three:latest"


def test_a_server_without_a_list_needs_a_name(fake: FakeEndpoint) -> None:
    fake.models = None
    with pytest.raises(InputError, match="#NAME"):
        open_remote_models(fake.url, None, None)
    assert open_remote_models(f"{fake.url}#m", None, None).generator is not None


def test_a_server_that_is_not_there_is_told() -> None:
    with FakeEndpoint() as gone:
        url = gone.url
    with pytest.raises(InputError, match="nothing listens there"):
        open_remote_models(url, None, None)


def test_one_of_several_may_be_down_at_the_start(fake: FakeEndpoint) -> None:
    with FakeEndpoint() as gone:
        url = gone.url
    generator = open_remote_models(f"{url},{fake.url}", None, None).generator
    assert generator is not None
    assert [one.model for one in generator.servers] == ["fake-model", "fake-model"]


def test_servers_of_different_embedders_are_refused(fake: FakeEndpoint) -> None:
    with FakeEndpoint(dims=16) as other, pytest.raises(InputError, match="different models"):
        open_remote_embedder(f"{fake.url},{other.url}")


def test_an_embedder_without_base64_sends_numbers(fake: FakeEndpoint) -> None:
    refusing = {"error": {"message": "encoding_format?"}}

    def without_base64(asked: Asked) -> Reply | None:
        is_first = asked.path.endswith("/embeddings") and "encoding_format" in asked.body
        return plain(400, refusing) if is_first else None

    fake.instead = without_base64
    embedder = open_remote_embedder(fake.url)
    assert embedder is not None
    assert not embedder.first.has_base64


def test_a_model_server_without_embeddings_or_ranking_is_refused(fake: FakeEndpoint) -> None:
    fake.dims, fake.ranks = 0, False
    with pytest.raises(InputError, match=r"--embedder: .* has no /embeddings"):
        open_remote_models(None, fake.url, None)
    with pytest.raises(InputError, match=r"--reranker: .* no /rerank"):
        open_remote_models(None, None, fake.url)


def test_servers_are_asked_also_from_within_an_event_loop(fake: FakeEndpoint) -> None:
    async def inside() -> bool:
        return open_remote_models(fake.url, None, None).are_there

    assert asyncio.run(inside())
    assert run_apart(lambda: asyncio.sleep(0, 7)) == 7
