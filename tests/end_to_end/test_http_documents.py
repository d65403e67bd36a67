"""Documents and inputs over HTTP, and workflows that lack something."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from heddle import RAGraph, Server
from heddle.server.http import create_app
from heddle.workflow.ready_made import ready_made
from tests.helpers.server_state import eventually, holds_nothing

QUESTION = "Who keeps the mill at Vik?"
MILL = {"title": "The mill at Vik", "text": "The mill at Vik is kept by Solveig."}


@pytest.fixture(scope="module")
def client(inline_server: Server) -> Iterator[TestClient]:
    told = RAGraph("told", inputs=["topic"]).add_generation("say", "{topic} {query}", max_tokens=2)
    workflows = {
        "doc_qa_naive": ready_made("doc_qa_naive").compile(),
        "oneshot": ready_made("oneshot").compile(),
        "told": told.compile(),
    }
    app = create_app(inline_server, workflows)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def refusal(client: TestClient, **body: object) -> str:
    reply = client.post("/v1/ask", json={"question": QUESTION, **body})
    assert reply.status_code == 400, reply.text
    return reply.json()["error"]["message"]


def test_an_answer_from_a_document(client: TestClient, inline_server: Server):
    body = {"question": QUESTION, "workflow": "doc_qa_naive", "documents": [MILL], "max_tokens": 4}
    reply = client.post("/v1/ask", json=body)
    assert reply.status_code == 200, reply.text
    assert [p["title"] for p in reply.json()["passages"]] == ["The mill at Vik"]
    found = client.post("/v1/search", json={"query": QUESTION, "topk": 50}).json()["passages"]
    assert not any("Vik" in passage["title"] for passage in found)
    eventually(lambda: holds_nothing(inline_server))


def test_what_is_missing_or_wrong_is_named(client: TestClient):
    naive = {"workflow": "doc_qa_naive"}
    assert "documents: workflow 'doc_qa_naive' answers from" in refusal(client, **naive)
    assert "documents[0]: text is empty" in refusal(client, **naive, documents=[{"text": " "}])
    assert "documents.0.text: is missing" in refusal(client, **naive, documents=[{}])
    assert "documents.0.id: there is no such field" in refusal(
        client, **naive, documents=[{"text": "a", "id": "b"}]
    )
    assert "documents: workflow 'oneshot' reads the corpus" in refusal(
        client, workflow="oneshot", documents=[MILL]
    )
    assert "documents are no input" in refusal(client, **naive, inputs={"documents": ["a"]})
    assert "workflow 'told' needs topic" in refusal(client, workflow="told")
    assert "has no input other" in refusal(
        client, workflow="told", inputs={"topic": "", "other": 1}
    )


def test_a_workflow_without_its_connector_says_so(client: TestClient):
    message = refusal(client, workflow="search_engine")
    assert "workflow 'search_engine' needs the connector 'web_search'" in message
    assert "--connector web_search=FILE.py:FUNCTION" in message
    assert "is unknown" in refusal(client, workflow="twoshot")
