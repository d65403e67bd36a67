"""Open WebUI: the requests of a chat, as the backend of its version 0.12.4 makes them.

The requests were read from its source; their values are our own (open_webui.json).

`shown_sources` reads a stream as Open WebUI's backend does: of each chunk's delta it takes the
annotations of type `url_citation` that have a `url`, and shows each as a source under the answer.
`json_of` reads the reply to a task: what stands between its first and last brace, if it is JSON.
Where it isn't, Open WebUI calls the chat by its first question, without tags and suggestions.
"""

import json
from pathlib import Path
from typing import Any, Final

from benchmarks.client_calls.call import ANSWER, QUESTION, Servers
from benchmarks.client_calls.httpx_calls import CHAT, CLIENT

RECORDED: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("open_webui.json").read_text(encoding="utf-8")
)
USER: Final = {"role": "user", "content": QUESTION}
FOLLOW_UP: Final = "Who is the keeper of Rock 2?"


def sent(url: str, body: dict[str, Any]) -> Any:
    """Send a chat as Open WebUI does, and return the response."""
    import httpx

    response = httpx.post(f"{url}{CHAT}", json=body, headers=RECORDED["headers"], timeout=60)
    assert response.status_code == 200, response.text
    return response


def streamed(url: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the chunks of a chat that offers Open WebUI's tools with its question."""
    body = {"stream": True, "model": "corpus", "messages": messages, "tools": RECORDED["tools"]}
    lines = sent(url, body).text.splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(one) for one in data[:-1]]


def shown_text(chunks: list[dict[str, Any]]) -> str:
    """Return the text that stands in the chat."""
    deltas = (choice["delta"] for chunk in chunks for choice in chunk["choices"])
    return "".join(delta.get("content") or "" for delta in deltas)


def shown_sources(chunks: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the name and the address of each source that is shown under the answer."""
    cited = [
        annotation["url_citation"]
        for chunk in chunks
        for choice in chunk["choices"]
        for annotation in choice["delta"].get("annotations") or ()
        if annotation.get("type") == "url_citation" and "url_citation" in annotation
    ]
    return [
        {"name": one.get("title", one["url"]), "url": one["url"]} for one in cited if one.get("url")
    ]


def json_of(reply: dict[str, Any]) -> Any:
    """Return the JSON of a task's reply; None = there is none."""
    [choice] = reply["choices"]
    text = choice["message"]["content"]
    try:
        return json.loads(text[text.find("{") : text.rfind("}") + 1])
    except ValueError:
        return None


@CLIENT.call
def open_webui_lists_the_models(servers: Servers) -> None:
    import httpx

    listed = httpx.get(f"{servers.quoting}/models", headers=RECORDED["headers"]).json()
    assert listed["object"] == "list"
    assert "corpus" in [one["id"] for one in listed["data"]]


@CLIENT.call
def open_webui_shows_an_answer_with_its_sources(servers: Servers) -> None:
    chunks = streamed(servers.quoting, [USER])
    assert ANSWER in shown_text(chunks)
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "stop"
    sources = shown_sources(chunks)
    assert "Rock 3" in sources[0]["name"], sources
    assert all(one["name"] and one["url"] for one in sources)
    assert not any("tool_calls" in chunk["choices"][0]["delta"] for chunk in chunks)


@CLIENT.call
def open_webui_goes_on_with_the_chat(servers: Servers) -> None:
    said = {"role": "assistant", "content": shown_text(streamed(servers.quoting, [USER]))}
    chunks = streamed(servers.quoting, [USER, said, {"role": "user", "content": FOLLOW_UP}])
    assert shown_text(chunks)
    assert "Rock 2" in shown_sources(chunks)[0]["name"]


@CLIENT.call
def open_webui_sets_a_system_prompt_and_options(servers: Servers) -> None:
    system = {"role": "system", "content": "Answer kindly."}
    body = {
        "stream": True,
        "model": "corpus",
        "messages": [system, USER],
        "tools": RECORDED["tools"],
        "temperature": 0.7,
        "max_tokens": 200,
        "stream_options": {"include_usage": True},
    }
    text = sent(servers.quoting, body).text
    assert ANSWER in text
    last = json.loads(text.rstrip().splitlines()[-3].removeprefix("data: "))
    assert last["usage"]["total_tokens"] > 0


@CLIENT.call
def open_webui_asks_for_a_title_tags_and_follow_ups(servers: Servers) -> None:
    history = f"USER: {QUESTION}\nASSISTANT: {ANSWER}"
    for prompt in RECORDED["tasks"].values():
        messages = [{"role": "user", "content": prompt.replace("{history}", history)}]
        body = {"model": "corpus", "messages": messages, "stream": False, "max_tokens": 1000}
        # The extractor quotes and writes no JSON: the chat is called by its first question.
        assert json_of(sent(servers.quoting, body).json()) is None
        reply = sent(servers.writing, {**body, "model": servers.llm, "max_tokens": 8}).json()
        assert reply["usage"]["completion_tokens"] == 8
