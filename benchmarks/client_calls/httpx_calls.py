"""httpx: requests as curl sends them, among them those that chat interfaces were seen to send."""

import json
from typing import Any

from benchmarks.client_calls.call import ANSWER, QUESTION, TOKENS, Client, Servers

CLIENT = Client("httpx", "httpx")
CHAT = "/chat/completions"
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]


def post(url: str, path: str, body: dict[str, Any]) -> Any:
    """Send a body and return the response."""
    import httpx

    return httpx.post(f"{url}{path}", json=body, timeout=60)


def error_of(response: Any, status: int) -> dict[str, Any]:
    """Return the error of a refusal, which has OpenAI's four fields."""
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert response.headers["x-request-id"]
    return error


@CLIENT.call
def a_chat(servers: Servers) -> None:
    reply = post(servers.quoting, CHAT, {"model": "corpus", "messages": MESSAGES}).json()
    assert reply["object"] == "chat.completion"
    assert ANSWER in reply["choices"][0]["message"]["content"]


@CLIENT.call
def a_stream_ends_with_done(servers: Servers) -> None:
    body = {"model": "corpus", "messages": MESSAGES, "stream": True}
    response = post(servers.quoting, CHAT, body)
    assert response.headers["content-type"].startswith("text/event-stream")
    frames = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert frames[-1] == "[DONE]"
    chunks = [json.loads(frame) for frame in frames[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1


@CLIENT.call
def sources_stand_in_a_streamed_text_on_demand(servers: Servers) -> None:
    body = {"model": "corpus", "messages": MESSAGES, "stream": True}
    text = post(servers.quoting, CHAT, {**body, "heddle": {"inline_sources": True}}).text
    assert ANSWER in text
    assert "**Sources**" in text


@CLIENT.call
def a_body_that_is_no_json(servers: Servers) -> None:
    import httpx

    headers = {"Content-Type": "application/json"}
    sent = httpx.post(f"{servers.quoting}{CHAT}", content=b"{", headers=headers)
    assert error_of(sent, 400)["type"] == "InputError"


@CLIENT.call
def a_path_and_a_method_that_are_not_there(servers: Servers) -> None:
    import httpx

    assert error_of(httpx.get(f"{servers.quoting}/nothing"), 404)["code"] == "not_found"
    assert error_of(httpx.get(f"{servers.quoting}{CHAT}"), 405)["code"] == "method_not_allowed"


@CLIENT.call
def an_image_is_refused(servers: Servers) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    body = {"model": "corpus", "messages": [{"role": "user", "content": [image]}]}
    error = error_of(post(servers.quoting, CHAT, body), 400)
    assert error["param"] == "messages"
    assert "image_url" in error["message"]


@CLIENT.call
def a_json_schema_is_refused_by_name_where_nothing_writes(servers: Servers) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "yes"}}}
    body = {"model": "corpus", "messages": MESSAGES, "response_format": form}
    assert error_of(post(servers.quoting, CHAT, body), 400)["param"] == "response_format"


@CLIENT.call
def token_ids_are_refused(servers: Servers) -> None:
    body = {"model": servers.llm, "prompt": [1, 2, 3]}
    assert error_of(post(servers.writing, "/completions", body), 400)["param"] == "prompt"


@CLIENT.call
def an_embedder_writes_no_text(servers: Servers) -> None:
    body = {"model": servers.embedder, "messages": MESSAGES}
    error = error_of(post(servers.writing, CHAT, body), 400)
    assert (error["param"], error["code"]) == ("model", "unsupported_model")


@CLIENT.call
def a_deadline_that_passes(servers: Servers) -> None:
    heddle = {"deadline_s": 0.001}
    body = {"model": servers.llm, "messages": MESSAGES, "max_tokens": 1500, "heddle": heddle}
    response = post(servers.writing, CHAT, body)
    assert error_of(response, 504)["code"] == "deadline_exceeded"
    assert response.headers["x-should-retry"] == "false"


@CLIENT.call
def a_completion(servers: Servers) -> None:
    body = {"model": servers.llm, "prompt": "The lighthouse", "max_tokens": TOKENS}
    reply = post(servers.writing, "/completions", body).json()
    assert reply["object"] == "text_completion"
    assert reply["usage"]["completion_tokens"] == TOKENS
