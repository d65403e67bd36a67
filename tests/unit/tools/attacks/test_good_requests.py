"""Good requests are what the server's own models accept, of every route and workflow."""

from collections import Counter
from itertools import islice

import pytest
from pydantic import BaseModel

from heddle.server.ask_request import AskRequest
from heddle.server.document_request import DocumentRequest
from heddle.server.embedding_request import EmbeddingRequest
from heddle.server.openai.chat_request import ChatRequest
from heddle.server.openai.completion_request import CompletionRequest
from heddle.server.search_request import SearchRequest
from heddle.workflow.presets import PRESETS
from tools.attacks.configuration import CHANGES, DEFAULT, Configuration
from tools.attacks.exchange import Request
from tools.attacks.good_requests import PUT_MAX, ROUTES, GoodRequests

MODELS: dict[str, type[BaseModel]] = {
    "/v1/ask": AskRequest,
    "/v1/search": SearchRequest,
    "/v1/embeddings": EmbeddingRequest,
    "/v1/documents": DocumentRequest,
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
}


def drawn(server: Configuration, seed: int = 1, count: int = 300) -> list[tuple[Request, str]]:
    return list(islice(GoodRequests(server, seed), count))


def test_every_body_is_read_by_the_model_of_its_route() -> None:
    bodies = [request for request, _ in drawn(CHANGES) if request.method == "POST"]
    assert {request.path for request in bodies} == set(MODELS)
    for request in bodies:
        MODELS[request.path].model_validate_json(request.body)


def test_all_routes_and_workflows_come_first() -> None:
    found = drawn(CHANGES, count=23)
    assert {request.route for request, _ in found} == ROUTES
    assert {workflow for _, workflow in found} == {"", *PRESETS}


def test_a_server_is_asked_only_what_it_can_do() -> None:
    found = drawn(DEFAULT)
    assert not [request for request, _ in found if request.path.startswith("/v1/documents")]
    assert {workflow for _, workflow in found} == {"", "quote"}


def test_a_long_run_leaves_few_documents() -> None:
    methods = Counter(r.method for r, _ in drawn(CHANGES, count=3_000) if "/v1/documents" in r.path)
    assert methods["POST"] > 4 * PUT_MAX
    assert 0 <= methods["POST"] - methods["DELETE"] <= PUT_MAX


def test_only_documents_that_were_put_are_deleted_and_each_once() -> None:
    put: list[str] = []
    deletions = 0
    for request, _ in drawn(CHANGES):
        if request.route == "POST /v1/documents":
            put.append(DocumentRequest.model_validate_json(request.body).id)
        if request.method == "DELETE":
            put.remove(request.path.removeprefix("/v1/documents?id="))
            deletions += 1
    assert deletions


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_draws_the_same_again(seed: int) -> None:
    assert drawn(CHANGES, seed) == drawn(CHANGES, seed)
    assert drawn(CHANGES, seed) != drawn(CHANGES, seed + 1)
