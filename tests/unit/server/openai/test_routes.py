"""OpenAI's routes on a server that does only what a test says."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from heddle.app.server_config import ServerConfig
from heddle.core.errors import Busy, EngineError, HeddleError
from heddle.core.prompts.chat_turns import ChatTurn, ChatTurns
from heddle.core.results import FinishReason
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, RequestEvent, RequestFailed, TokenDelta
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import ReceiptDraft
from heddle.server.http import create_app
from heddle.server.keys.api_key import ApiKey, KeyScope, digest_of
from heddle.server.keys.key_ring import KeyRing
from heddle.workflow.presets import preset

WORKFLOWS = {name: preset(name).compile() for name in ("oneshot", "quote")}
RECEIPT = ReceiptDraft(prompt_tokens=9, prompt_tokens_reused=4, generated_tokens=2, tokens_read=1)
ANSWER = Answer(
    "Ada B.",
    (),
    {},
    RECEIPT.close(Optimizations.EXACT, 0.5, "exact"),
    finish_reason=FinishReason.LENGTH,
)
EVENTS = (TokenDelta("answer", "Ada"), TokenDelta("answer", " B."), ANSWER)
USER = {"role": "user", "content": "Who?"}
LOST = EngineError("lane lost", engine="llm", request_ids=(1,))


class FakeServer:
    """Pushes events into the handle that it returns, or refuses; remembers what was asked."""

    config = ServerConfig(generator="reader")
    store = object()
    generator = SimpleNamespace(name="tiny")
    plan = SimpleNamespace(remote=SimpleNamespace(generator=None), generator=generator)
    embedder_name = "minilm"

    def __init__(self, *events: RequestEvent, refuses: HeddleError | None = None) -> None:
        self.events, self.refuses = events or EVENTS, refuses
        self.asked: list[tuple[str, Any, dict[str, Any]]] = []

    def submit(self, workflow: Any, inputs: Any, **options: Any) -> Handle:
        self.asked.append((workflow.name, inputs, options))
        if self.refuses is not None:
            raise self.refuses
        handle = Handle(lambda: None, 1)
        for event in self.events:
            handle.push(event)
        return handle


def asked(server: FakeServer, path: str, body: Any = None, **how: Any) -> httpx.Response:
    app = create_app(server, WORKFLOWS, keys=how.pop("keys", None))  # type: ignore[arg-type]

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            if body is None:
                return await client.get(path, **how)
            return await client.post(path, json=body, **how)

    return asyncio.run(send())


def chat(server: FakeServer, **fields: Any) -> httpx.Response:
    body = {"model": "reader", "messages": [USER], **fields}
    return asked(server, "/v1/chat/completions", body)


def frames(response: httpx.Response) -> list[Any]:
    found = [frame.removeprefix("data: ") for frame in response.text.split("\n\n") if frame]
    return [frame if frame == "[DONE]" else json.loads(frame) for frame in found]


def test_turns_reach_the_llm_as_the_template_reads_them():
    server = FakeServer()
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}],
        },
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Ada", "unknown": 1},
    ]
    reply = chat(server, messages=messages, max_tokens=5, max_completion_tokens=7, stop="END")
    assert reply.status_code == 200
    [(name, inputs, options)] = server.asked
    read = {**call, "function": {"name": "f", "arguments": {"a": 1}}}
    assert (name, inputs["turns"]) == (
        "chat",
        ChatTurns(
            (
                ChatTurn("system", "Be\nbrief."),
                ChatTurn("user", "Who?"),
                ChatTurn("assistant", "", {"tool_calls": [read]}),
                ChatTurn("tool", "Ada", {"tool_call_id": "1"}),
            )
        ),
    )
    assert (options["max_tokens"], options["stop"]) == (7, "END")
    assert "seed" not in options, "greedy decoding draws nothing"


def test_counts_and_the_end_are_true():
    body = chat(FakeServer()).json()
    assert body["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["message"]["content"] == "Ada B."


def test_a_stream_has_a_role_deltas_an_end_and_counts():
    response = chat(FakeServer(), stream=True, stream_options={"include_usage": True})
    *chunks, done = frames(response)
    assert done == "[DONE]"
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "Ada B."
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-2]["heddle"]["receipt"]["generated_tokens"] == 2
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["total_tokens"]) == ([], 12)


def test_what_fails_before_the_first_token_has_a_status_of_its_own():
    for events in ((RequestFailed(LOST),), (TokenDelta("retrieve", "x"), RequestFailed(LOST))):
        response = chat(FakeServer(*events), stream=True)
        assert response.status_code == 500
        assert response.json()["error"]["type"] == "EngineError"


def test_what_fails_in_mid_stream_ends_it_with_the_error():
    response = chat(FakeServer(EVENTS[0], RequestFailed(LOST)), stream=True)
    assert response.status_code == 200
    found = frames(response)
    assert found[-1]["error"]["message"] == str(LOST)
    assert "[DONE]" not in found


def test_a_busy_server_says_when_to_come_again():
    response = chat(FakeServer(refuses=Busy("full", wait_s=2.0)))
    assert (response.status_code, response.headers["retry-after-ms"]) == (503, "2000")
    assert response.json()["error"]["code"] == "server_is_overloaded"


def test_a_drawn_answer_is_another_one_each_time():
    server = FakeServer()
    for fields in ({"temperature": 1.0}, {"temperature": 1.0}, {"temperature": 1.0, "seed": -3}):
        assert chat(server, **fields).status_code == 200
    seeds = [options["seed"] for _, _, options in server.asked]
    assert seeds[0] != seeds[1]
    assert seeds[2] == (1 << 63) - 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"heddle": {"topk": 0}}, "heddle.topk"),
        ({"heddle": {"unknown": 1}}, "heddle.unknown"),
        ({"tools": [{"type": "function"}]}, "tools"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], param: str):
    response = chat(FakeServer(), **fields)
    assert response.status_code == 400
    assert (response.json()["error"]["param"] or "") == param


def test_a_workflow_gets_the_last_question_and_the_system_text():
    server = FakeServer()
    said = [{"role": "system", "content": "Brief."}, USER, {"role": "assistant", "content": "I."}]
    messages = [*said, {"role": "user", "content": "Why?"}]
    fields: dict[str, Any] = {"messages": messages, "heddle": {"topk": 2, "tenant": "acme"}}
    assert chat(server, model="workflow:oneshot", **fields).status_code == 200
    [(name, inputs, options)] = server.asked
    assert (name, inputs) == ("oneshot", {"query": "Why?"})
    assert (options["system"], options["topk"], options["tenant"]) == ("Brief.", 2, "acme")


def test_how_a_model_writes_is_ignored_where_none_does_and_the_reply_says_so():
    server = FakeServer()
    reply = chat(server, model="workflow:quote", temperature=0.1, max_tokens=9).json()
    [(_, _, options)] = server.asked
    assert "temperature" not in options
    assert reply["heddle"]["ignored"] == ["max_tokens", "temperature"]


def test_models_are_named_and_found():
    listed = asked(FakeServer(), "/v1/models").json()["data"]
    names = ["corpus", "reader", "minilm", "workflow:oneshot", "workflow:quote"]
    assert [one["id"] for one in listed] == names
    assert asked(FakeServer(), "/v1/models/workflow:quote").json()["id"] == "workflow:quote"
    missing = asked(FakeServer(), "/v1/models/gpt-4")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_a_key_decides_on_the_tenant_and_opens_the_models():
    ring = KeyRing(
        [ApiKey("shop", digest_of("secret"), tenant="acme", scopes=frozenset({KeyScope.ASK}))]
    )
    headers = {"Authorization": "Bearer secret"}
    server = FakeServer()
    body: dict[str, Any] = {"model": "reader", "messages": [USER]}
    path = "/v1/chat/completions"
    assert asked(server, path, body, keys=ring, headers=headers).status_code == 200
    assert server.asked[0][2]["tenant"] == "acme"
    other = {**body, "heddle": {"tenant": "other"}}
    assert asked(server, path, other, keys=ring, headers=headers).status_code == 403
    assert asked(server, "/v1/models/corpus", keys=ring, headers=headers).status_code == 200
    refused = asked(server, path, body, keys=ring)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
