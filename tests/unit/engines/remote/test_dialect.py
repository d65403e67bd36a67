"""Requests for text: their shape, and what is left out for a server that doesn't take it."""

import pytest

from heddle.app.chat.messages import chat_turns
from heddle.core.payloads import PrefillPayload, Sampling
from heddle.core.prompts.chat_turns import BareText, ChatTurn, ChatTurns
from heddle.core.prompts.constraint import Constraint
from heddle.core.system_text import SystemText
from heddle.core.tasks import Priority
from heddle.engines.remote.dialect import (
    EXTRAS,
    VLLM,
    Abilities,
    Dialect,
    Prompt,
    constraint_refusal,
    notes_of,
    request_body,
    without,
)
from heddle.engines.remote.generation.prompt_text import TextPrompts

SAMPLING = Sampling(max_tokens=9, temperature=0.5, top_p=0.9, top_k=4, seed=3, stop=("END",))


def test_a_chat_has_the_prompt_as_its_users_message() -> None:
    body = request_body(Prompt("Who?", system="Be brief."), SAMPLING, Abilities("m"))
    assert body == {
        "model": "m",
        "stream": True,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Who?"},
        ],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 3,
        "stream_options": {"include_usage": True},
    }


def test_a_conversation_is_sent_as_it_is_and_a_bare_text_without_a_chat() -> None:
    turns = (ChatTurn("user", "Who?"), ChatTurn("tool", "Ada", {"tool_call_id": "1"}))
    segments = TextPrompts().encode_prompt([SystemText("Be brief."), ChatTurns(turns)])
    sent = PrefillPayload(segments)
    chat = Prompt(sent.text, system=sent.system, turns=sent.turns)
    assert request_body(chat, Sampling(), Abilities("m"))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who?"},
        {"role": "tool", "content": "Ada", "tool_call_id": "1"},
    ]
    sent = PrefillPayload(TextPrompts().encode_prompt([SystemText("Brief."), BareText("Once")]))
    text = Prompt(sent.text, system=sent.system, is_bare=sent.is_bare)
    server = Abilities("m", Dialect.COMPLETIONS)
    assert request_body(text, Sampling(), server)["prompt"] == "Once"
    assert "send it messages" in text.misfit(Dialect.CHAT)
    assert "one text" in chat.misfit(Dialect.COMPLETIONS)
    assert not text.misfit(Dialect.COMPLETIONS) + chat.misfit(Dialect.CHAT)


def test_an_earlier_call_of_a_tool_is_sent_in_the_form_in_which_it_came() -> None:
    function = {"name": "look", "arguments": '{"year": 1872}'}
    messages = [
        {"role": "user", "content": "Who?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "Ada", "tool_call_id": "1"},
    ]
    prompt = Prompt("", turns=chat_turns(messages).turns)
    assert request_body(prompt, Sampling(), Abilities("m"))["messages"] == messages


def test_a_completion_has_it_as_text() -> None:
    server = Abilities("m", Dialect.COMPLETIONS)
    assert request_body(Prompt("Who?"), Sampling(), server)["prompt"] == "Who?"
    assert request_body(Prompt("Who?", "Brief."), Sampling(), server)["prompt"] == "Brief.\n\nWho?"


def test_the_request_has_the_shape_that_openai_documents() -> None:
    openai = pytest.importorskip("openai.types.chat.completion_create_params")
    known = openai.CompletionCreateParamsStreaming.__annotations__
    known |= openai.CompletionCreateParamsBase.__annotations__
    body = request_body(Prompt("Who?", system="Be brief."), SAMPLING, Abilities("m"))
    assert body.keys() <= known.keys()


def test_only_vllm_gets_what_openai_doesnt_know() -> None:
    prompt = Prompt("Who?", tenant="acme", priority=Priority.BULK)
    extra = {"top_k": 4, "cache_salt": "acme", "priority": 1}
    body = request_body(prompt, SAMPLING, Abilities("m", owner=VLLM))
    assert {name: body.get(name) for name in extra} == extra
    plain = request_body(prompt, SAMPLING, Abilities("m", owner="openai"))
    assert extra.keys().isdisjoint(plain)
    calm = request_body(Prompt("Who?"), SAMPLING, Abilities("m", owner=VLLM))
    assert "priority" not in calm, "vLLM refuses any priority unless it schedules by them"


def test_what_a_server_lacks_is_left_out_and_told() -> None:
    server = Abilities("m", lacks={"temperature", "seed", "stream_options", "max_tokens"})
    body = request_body(Prompt("Who?"), SAMPLING, server, frozenset({"top_p"}))
    assert body.keys() == {"model", "stream", "messages", "stop", "max_completion_tokens"}
    (top_k, told) = notes_of(Prompt("Who?"), SAMPLING, server)
    assert "top_k" in top_k
    assert "seed, temperature" in told


@pytest.mark.parametrize(
    ("owner", "lacks", "count"), [("", set(), 1), (VLLM, set(), 0), (VLLM, {"cache_salt"}, 1)]
)
def test_a_shared_prefix_cache_is_told_to_tenants(owner: str, lacks: set[str], count: int) -> None:
    server = Abilities("m", owner=owner, lacks=lacks)
    notes = notes_of(Prompt("Who?", tenant="acme"), Sampling(), server)
    assert len([note for note in notes if "tenants" in note]) == count
    assert notes_of(Prompt("Who?"), Sampling(), Abilities("m")) == ()


@pytest.mark.parametrize(
    ("named", "left_out"),
    [
        ("temperature", {"temperature"}),
        ("max_tokens", {"max_tokens"}),
        ("messages", {"seed", "stream_options"}),
        ("", {"seed", "stream_options"}),
    ],
)
def test_a_refused_field_is_left_out_or_else_all_extras(named: str, left_out: set[str]) -> None:
    body = request_body(Prompt("Who?"), Sampling(), Abilities("m"))
    assert without(body, named) == left_out


def test_nothing_is_left_to_leave_out_in_the_end() -> None:
    assert without({"model": "m", "messages": [], "max_tokens": 3}, "") == frozenset()


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_a_schema_goes_on_as_openai_names_it() -> None:
    sampling = Sampling(constraint=Constraint.json_schema(SCHEMA))
    body = request_body(Prompt("Who?"), sampling, Abilities("m"))
    inner = {"name": "answer", "schema": SCHEMA, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": inner}
    assert without(body, "response_format") == EXTRAS & body.keys(), "it is never left out"


def test_only_vllm_gets_a_regex_or_a_choice() -> None:
    vllm, other = Abilities("m", owner=VLLM), Abilities("m")
    for constraint in (Constraint.regex("a+"), Constraint.choice(["a", "b"])):
        assert constraint_refusal(constraint, vllm) == ""
        asked = request_body(Prompt("Who?"), Sampling(constraint=constraint), vllm)
        assert asked["structured_outputs"] == {constraint.kind.value: constraint.value}
        assert "goes only to a server of vLLM" in constraint_refusal(constraint, other)


def test_what_a_server_can_not_be_asked_for_is_refused() -> None:
    plain = Constraint.json_schema(SCHEMA)
    server = Abilities("m", Dialect.COMPLETIONS)
    assert "takes no response_format" in constraint_refusal(plain, server)
    assert constraint_refusal(plain, Abilities("m")) == ""
    within = Constraint.json_schema(SCHEMA, before="<", after=">")
    assert "within other text" in constraint_refusal(within, Abilities("m"))
