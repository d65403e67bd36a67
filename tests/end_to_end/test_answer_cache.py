"""A server that gives earlier answers again: in Python, over HTTP, and while its corpus changes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from heddle import Answer, Server
from heddle.core.errors import InputError
from heddle.runtime.receipt import AnswerLookup, LookupOutcome
from heddle.server.http import create_app
from heddle.workflow.presets import preset
from tests.helpers.scraped import samples
from tests.helpers.tiny_server import index_documents

KEEPER = "Who is the keeper of Rock 3?"
MINE = "The salt mine of Wend has {} levels, and its bell is of bronze."
LEVELS = "How many levels has the salt mine of Wend?"
TOLD = "Please tell me how many levels the salt mine of Wend has."
WORKFLOWS = ("quote", "oneshot", "hyde", "irg")


@pytest.fixture(scope="module")
def server(
    model: Path, documents: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Its corpus is its own: the tests here change it."""
    corpus = index_documents([documents], tmp_path_factory.mktemp("answers") / "corpus")
    settings = {"engine_host": "inline", "dtype": "float32", "kv_cache_bytes": 32 << 20}
    kept = {"answer_cache": "similar", "answer_cache_similarity": 0.8}
    with Server(model, corpus, max_tokens=16, **settings, **kept) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> TestClient:
    app = create_app(server, {name: preset(name).compile() for name in WORKFLOWS})
    return TestClient(app, base_url="http://127.0.0.1")


def ask(server: Server, question: str, workflow: str, **options: object) -> Answer:
    return server.app(workflow).invoke(question, **options)


def looked(answer: Answer) -> AnswerLookup:
    assert answer.receipt.answer_lookup is not None
    return answer.receipt.answer_lookup


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_an_equal_question_gets_what_would_be_answered(server: Server, workflow: str):
    first = ask(server, KEEPER, workflow)
    again = ask(server, KEEPER, workflow)
    bare = ask(server, KEEPER, workflow, answer_cache=False)
    assert looked(first).outcome is LookupOutcome.MISS
    assert looked(again).outcome is LookupOutcome.EQUAL
    assert bare.receipt.answer_lookup is None
    for answer in (again, bare):
        assert (answer.text, answer.passages) == (first.text, first.passages)
        assert (answer.quotes, answer.nearest) == (first.quotes, first.nearest)
        assert answer.finish_reason == first.finish_reason
    assert again.receipt.generated_tokens == again.receipt.passages_read == 0
    assert bare.slots.keys() <= again.slots.keys()


def test_an_exact_request_takes_an_equal_question_alone(server: Server):
    server.upsert("mine", MINE.format("three"))
    exact = {"optimizations": "exact"}
    assert looked(ask(server, LEVELS, "quote", **exact)).outcome is LookupOutcome.MISS
    assert looked(ask(server, LEVELS, "quote", **exact)).outcome is LookupOutcome.EQUAL
    assert looked(ask(server, TOLD, "quote", **exact)).outcome is LookupOutcome.MISS
    assert ask(server, LEVELS, "quote", optimizations="off").receipt.answer_lookup is None


def test_what_the_corpus_says_now_is_answered(server: Server):
    server.upsert("mine", MINE.format("three"))
    assert ask(server, LEVELS, "quote", topk=1).text == "three"
    assert looked(ask(server, LEVELS, "quote", topk=1)).outcome is LookupOutcome.EQUAL

    similar = ask(server, TOLD, "quote", topk=1)
    assert similar.text == "three"
    assert looked(similar).outcome is LookupOutcome.SIMILAR
    assert looked(similar).question == LEVELS

    server.upsert("recipe", "Bread is baked from flour and yeast.")
    assert looked(ask(server, LEVELS, "quote", topk=1)).is_checked

    server.upsert("mine", MINE.format("eleven"))
    assert ask(server, LEVELS, "quote", topk=1).text == "eleven"
    assert ask(server, TOLD, "quote", topk=1).text == "eleven"

    server.delete("mine")
    gone = ask(server, LEVELS, "quote", topk=1)
    assert gone.text != "eleven"
    assert looked(gone).outcome is LookupOutcome.MISS
    assert looked(ask(server, LEVELS, "quote", topk=1)).outcome is LookupOutcome.EQUAL

    server.upsert("new", MINE.format("nine"))  # a passage that no answer could rest on before
    new = ask(server, LEVELS, "quote", topk=1)
    assert new.text == "nine"
    assert looked(new).outcome is LookupOutcome.CHANGED


def test_tenants_share_no_answer(server: Server):
    server.upsert("door", "The code of the north door is 4711.", tenant="a")
    question = "What is the code of the north door?"
    assert ask(server, question, "quote", tenant="a").text == "4711"
    assert looked(ask(server, question, "quote", tenant="a")).outcome is LookupOutcome.EQUAL
    other = ask(server, question, "quote", tenant="b")
    assert looked(other).outcome is LookupOutcome.MISS
    assert all(passage.tenant != "a" for passage in other.passages)


def test_a_drawn_answer_is_not_kept(server: Server):
    for _ in range(2):
        drawn = ask(server, KEEPER, "oneshot", temperature=0.7, seed=1)
        assert looked(drawn).outcome is LookupOutcome.UNUSED


def test_over_http_a_kept_text_is_streamed(client: TestClient):
    asked = {"question": "Who lights the lamp of Rock 5?", "timeline": True}
    first = client.post("/v1/ask", json=asked).json()
    frames = client.post("/v1/ask", json={**asked, "stream": True}).text.split("\n\n")
    events = [frame.split("\n") for frame in frames if frame]
    found = [(n.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for n, d in events]
    assert [data["text"] for name, data in found if name == "token"] == [first["answer"]]
    assert found[-1][1]["receipt"]["answer_lookup"]["outcome"] == "equal"
    bare = client.post("/v1/ask", json={**asked, "answer_cache": False}).json()
    assert bare["receipt"]["answer_lookup"] is None
    assert bare["answer"] == first["answer"]
    wrong = client.post("/v1/ask", json={**asked, "answer_cache": "no"})
    assert wrong.status_code == 400
    assert "answer_cache" in wrong.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_with_the_corpus_is_answered_again(client: TestClient, stream: bool):
    turns = [{"role": "user", "content": "Who keeps Rock 7?"}]
    body = {"model": "corpus", "messages": turns, "temperature": 0}
    first = client.post("/v1/chat/completions", json=body).json()
    reply = client.post("/v1/chat/completions", json={**body, "stream": stream})
    text = first["choices"][0]["message"]["content"]
    if not stream:
        assert reply.json()["choices"][0]["message"]["content"] == text
        assert reply.json()["heddle"]["receipt"]["answer_lookup"]["outcome"] == "equal"
        return
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == text


def test_health_and_metrics_count_it(client: TestClient, server: Server):
    ask(server, KEEPER, "quote")
    ask(server, KEEPER, "quote")
    kept = client.get("/health").json()["answer_cache"]
    assert kept["entries"] >= 1
    assert kept["nbytes"] > 0
    found = samples(client.get("/metrics").text)
    assert found["heddle_answer_cache_entries",] == kept["entries"]
    assert found["heddle_answer_cache_lookups_total", "equal"] >= 1


def test_a_request_cannot_ask_for_a_cache_that_is_not_there(inline_server: Server):
    with pytest.raises(InputError, match="--answer-cache exact or similar"):
        ask(inline_server, KEEPER, "oneshot", answer_cache=True)
    with pytest.raises(InputError, match="answer_cache must be True or False"):
        ask(inline_server, KEEPER, "oneshot", answer_cache="no")
