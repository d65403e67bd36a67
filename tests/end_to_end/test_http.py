"""A real HTTP server before real engines."""

import json
import threading
from collections.abc import Iterator

import httpx
import pytest
import uvicorn

from heddle import RAGraph, Server
from heddle.server.http import create_app
from heddle.workflow.presets import ANSWER_TOKENS, preset
from tests.helpers.scraped import samples
from tests.helpers.server_state import eventually, holds_nothing

QUESTION = "Who is the keeper of Rock 3?"


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    talker = RAGraph("talker").add_generation("talk", "Tell of {query}.", max_tokens=1900)
    workflows = {"oneshot": preset("oneshot").compile(), "talker": talker.compile()}
    config = uvicorn.Config(
        create_app(server, workflows), port=0, log_config=None, lifespan="off", ws="none"
    )
    http = uvicorn.Server(config)
    thread = threading.Thread(target=http.run)
    thread.start()
    eventually(lambda: http.started)
    port = http.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as opened:
        yield opened
    http.should_exit = True
    thread.join()


def test_answer_and_stream_agree(client: httpx.Client):
    plain = client.post("/v1/ask", json={"question": QUESTION}).json()
    assert plain["passages"][0]["title"] == "The lighthouse of Rock 3"
    assert plain["receipt"]["generated_tokens"] == ANSWER_TOKENS
    streamed = client.post("/v1/ask", json={"question": QUESTION, "stream": True}).text
    frames = [frame.split("\n") for frame in streamed.split("\n\n") if frame]
    events = [(n.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for n, d in frames]
    assert events[0] == ("node_started", {"node": "retrieve", "turn": 0})
    assert events[-1][0] == "answer"
    assert events[-1][1]["answer"] == plain["answer"]
    assert "".join(d["text"] for n, d in events if n == "token") == plain["answer"]


def test_tokens_come_while_the_model_writes_and_leaving_stops_it(
    client: httpx.Client, server: Server
):
    body = {"question": QUESTION, "workflow": "talker", "stream": True}
    with client.stream("POST", "/v1/ask", json=body) as response:
        names = (line for line in response.iter_lines() if line.startswith("event: "))
        assert next(names) == "event: node_started"
        assert next(names) == "event: token"
        assert client.get("/health").json()["requests"] == 1
    eventually(lambda: holds_nothing(server))


def test_leaving_without_a_stream_stops_it_too(client: httpx.Client, server: Server):
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/ask", json={"question": QUESTION, "workflow": "talker"}, timeout=0.3)
    eventually(lambda: holds_nothing(server))


def test_a_question_out_of_bounds(client: httpx.Client):
    for question, status, word in (
        ("", 400, "empty"),
        ("a" * 40_000, 400, "40,000 characters"),
        ("a" * (1 << 20), 413, "1,048,576"),
        ("\x00\x01\x7f￾", 200, ""),
    ):
        response = client.post("/v1/ask", json={"question": question})
        assert response.status_code == status
        assert word in response.text


def test_a_prompt_longer_than_the_context(client: httpx.Client):
    response = client.post("/v1/ask", json={"question": "lighthouse keeper 1821. " * 1300})
    assert response.status_code == 400
    assert "2048" in response.json()["error"]["message"]


def test_a_prompt_that_no_tokenising_could_fit(client: httpx.Client):
    body = {"question": "\U0001f98a" * 30_000}
    refused = client.post("/v1/ask", json=body)
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "at least" in message
    assert "context_tokens_max" in message
    assert "shorten the question" in message


def test_health_and_names(client: httpx.Client):
    assert client.get("/health").status_code == 200
    named = client.get("/v1/workflows").json()
    assert named == {"workflows": ["oneshot", "talker"], "default": "oneshot"}


@pytest.mark.numerics
def test_metrics_tell_what_was_served(client: httpx.Client, server: Server):
    before = scrape(client)
    assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 200
    late = {"question": QUESTION, "workflow": "talker", "deadline_s": 0.3}
    assert client.post("/v1/ask", json=late).status_code == 504
    assert client.post("/v1/ask", json={"inputs": {"query": ""}}).status_code == 400
    embedding = client.post("/v1/embeddings", json={"input": "a lighthouse"})
    assert embedding.status_code == 200
    eventually(lambda: holds_nothing(server))
    after = scrape(client)

    def grown(name: str, *labels: str) -> float:
        return after[name, *labels] - before.get((name, *labels), 0.0)

    assert grown("heddle_requests_total", "answered", "normal") == 1
    assert grown("heddle_requests_total", "late", "normal") == 1
    assert grown("heddle_requests_total", "refused", "normal") == 1
    assert grown("heddle_request_duration_seconds_count", "normal") == 1
    assert grown("heddle_time_to_first_token_seconds_count", "normal") >= 1
    assert grown("heddle_generated_tokens_total") == ANSWER_TOKENS
    assert grown("heddle_prompt_tokens_total") > 0
    assert grown("heddle_embeddings_total", "answered") == 1
    for engine in ("embedding", "vector", "llm"):
        assert grown("heddle_engine_step_seconds_count", engine) > 0
        assert after["heddle_engine_tasks", engine, "sent"] == 0
        assert after["heddle_engine_notes", engine] == 0
    assert after["heddle_requests_in_flight",] == 0
    assert after["heddle_kv_pages", "llm", "free"] > 0
    assert after["heddle_index_revision", "vector"] == after["heddle_corpus_revision",]
    assert after["heddle_index_vectors", "vector"] == server.store.vector_count
    assert all(after["heddle_lane_up", lane] == 1 for lane in ("llm", "retrieval"))


def scrape(client: httpx.Client) -> dict[tuple[str, ...], float]:
    response = client.get("/metrics")
    assert response.status_code == 200
    return samples(response.text)


def test_a_deadline(client: httpx.Client, server: Server):
    body = {"question": QUESTION, "workflow": "talker", "deadline_s": 0.3}
    response = client.post("/v1/ask", json=body)
    assert response.status_code == 504
    eventually(lambda: holds_nothing(server))
