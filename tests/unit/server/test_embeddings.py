"""POST /v1/embeddings as OpenAI's clients use it, on a service that does what a test says."""

import asyncio
import base64
from collections.abc import Callable
from concurrent.futures import Future

import httpx
import numpy as np
import pytest

from heddle.core.errors import Busy, InputError
from heddle.core.results import Vectors
from heddle.server.http import create_app

VALUES = np.array([[0.6, 0.8], [1.0, 0.0]], np.float32)


class FakeServer:
    """Answers at once, never, or refuses."""

    embedder_name = "minilm"

    def __init__(self, result: Vectors | Exception | None = None) -> None:
        self.result, self.answer = result, Future()
        self.asked: list[tuple[object, dict[str, object]]] = []

    def submit_embedding(self, texts: object, **how: object) -> Future:
        self.asked.append((texts, how))
        if isinstance(self.result, Exception):
            raise self.result
        if self.result is not None:
            self.answer.set_result(self.result)
        return self.answer


def post(server: FakeServer, **body: object) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(server, {}), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/v1/embeddings", json=body)

    return asyncio.run(run())


def from_base64(text: str) -> list[float]:
    return np.frombuffer(base64.b64decode(text), "<f4").tolist()


@pytest.mark.parametrize(
    ("encoding", "decoded"),
    [("float", lambda values: values), (None, lambda values: values), ("base64", from_base64)],
)
def test_vectors_in_the_order_of_the_texts(encoding: str | None, decoded: Callable) -> None:
    server = FakeServer(Vectors(VALUES, tokens=7, truncated=1))
    response = post(server, input=["a", "b"], model="any", encoding_format=encoding, user=None)
    assert response.status_code == 200
    found = response.json()
    assert [part["index"] for part in found["data"]] == [0, 1]
    embeddings = [decoded(part["embedding"]) for part in found["data"]]
    np.testing.assert_array_equal(np.array(embeddings, np.float32), VALUES)
    assert (found["object"], found["model"]) == ("list", "minilm")
    assert found["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert (found["truncated"], found["windowed"]) == (1, 0)


def test_every_field_reaches_the_service() -> None:
    server = FakeServer(Vectors(VALUES[:1]))
    how = {"role": "query", "deadline_s": 2.0, "priority": "bulk", "tenant": "t", "dimensions": 2}
    how["long_texts"] = "window"
    post(server, input="a", **how)
    assert server.asked == [(("a",), how)]


def test_overload_says_when_to_come_again() -> None:
    response = post(FakeServer(Busy("the lanes are full", wait_s=1.2)), input="a")
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "2"
    assert response.headers["retry-after-ms"] == "1200"
    assert "predicted wait 1.2 s" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "input"),
        ({"input": 3}, "input"),
        ({"input": [1, 2]}, "check_embedding_ctx_length=False"),
        ({"input": [[1, 2], [3]]}, "check_embedding_ctx_length=False"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "role": "answer"}, "role"),
        ({"input": "a", "dimension": 2}, "dimension"),
    ],
)
def test_a_bad_field_is_named(body: dict[str, object], word: str) -> None:
    server = FakeServer()
    response = post(server, **body)
    assert response.status_code == 400
    assert word in response.json()["error"]["message"]
    assert server.asked == []


def test_what_the_service_refuses_is_the_callers_to_mend() -> None:
    response = post(FakeServer(InputError("there is nothing to embed")), input=[])
    assert response.status_code == 400


def test_a_client_that_leaves_gives_its_place_back() -> None:
    server = FakeServer()
    statuses: list[int] = []
    body = b'{"input": "a"}'

    async def run() -> None:
        parts = [{"type": "http.request", "body": body}]

        async def receive() -> dict:
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(part: dict) -> None:
            if "status" in part:
                statuses.append(part["status"])

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/embeddings",
            "raw_path": b"/v1/embeddings",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
        }
        async with asyncio.timeout(10):
            await create_app(server, {})(scope, receive, send)

    asyncio.run(run())
    assert server.answer.cancelled()
    assert statuses == [499]
