"""Fields of OpenAI's requests that Heddle doesn't read."""

import pytest

from heddle.core.errors import InputError
from heddle.server.openai.fields import HARMLESS, REFUSED, undefined

ASKS: dict[str, object] = {
    "n": 2,
    "best_of": 2,
    "frequency_penalty": 0.1,
    "presence_penalty": -1,
    "logit_bias": {"5": 1},
    "logprobs": True,
    "top_logprobs": 3,
    "echo": True,
    "suffix": "end",
    "audio": {"voice": "x"},
    "modalities": ["text", "audio"],
    "reasoning_effort": "high",
    "verbosity": "low",
    "web_search_options": {"a": 1},
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "tools": [{"type": "function"}],
    "tool_choice": "required",
    "response_format": {"type": "json_object"},
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_field_that_would_change_the_answer_is_refused_by_name(name: str):
    with pytest.raises(InputError, match=f"^{name}: ") as refused:
        undefined({name: ASKS[name]})
    assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_value_that_asks_for_nothing_passes(name: str):
    neutral, _ = REFUSED[name]
    for value in (None, [], {}, "", *neutral):
        undefined({name: value})


def test_false_is_no_number():
    with pytest.raises(InputError, match="n: "):
        undefined({"n": True})


def test_zero_logprobs_ask_for_the_probability_of_what_is_drawn():
    with pytest.raises(InputError, match="logprobs: "):
        undefined({"logprobs": 0})


def test_what_openai_does_not_define_is_named_and_what_changes_no_answer_is_not():
    assert undefined({"chat_id": 1, "n": 1, **dict.fromkeys(HARMLESS, "x")}) == ["chat_id"]


def test_openai_defines_nothing_else():
    """A new version of OpenAI's client that has another field shows up here."""
    chat = pytest.importorskip(
        "openai.types.chat.completion_create_params", reason="the client openai is not installed"
    )
    text = pytest.importorskip("openai.types.completion_create_params")
    from heddle.server.openai.chat_request import ChatRequest
    from heddle.server.openai.completion_request import CompletionRequest

    for params, own in ((chat, ChatRequest), (text, CompletionRequest)):
        defined = {
            *params.CompletionCreateParamsBase.__annotations__,
            *params.CompletionCreateParamsStreaming.__annotations__,
        }
        assert defined - set(own.model_fields) <= REFUSED.keys() | HARMLESS
