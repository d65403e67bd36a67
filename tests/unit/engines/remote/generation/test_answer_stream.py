"""Answers out of any bytes: text, or a RemoteProblem, and nothing else."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.results import FinishReason
from heddle.engines.remote.generation.answer_stream import TEXT_CHARS_MAX, AnswerStream
from heddle.engines.remote.http.response_reader import ResponseReader
from heddle.engines.remote.problem import RemoteProblem
from heddle.engines.remote.refusal import problem_of
from heddle.engines.remote.secret import NO_KEY

NAMES = [
    "choices",
    "delta",
    "message",
    "content",
    "text",
    "usage",
    "finish_reason",
    "error",
    "param",
    "code",
    "detail",
    "loc",
    "prompt_tokens",
    "reasoning",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
HEADS = {
    "events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
    "whole": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
    "refusal": b"HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\n\r\n",
    "busy": b"HTTP/1.1 429 Busy\r\nRetry-After: 1e400\r\n\r\n",
}


def answered(data: bytes) -> AnswerStream:
    """Read a response to its end; raises what is wrong with it."""
    texts: list[str] = []
    stream = AnswerStream(texts.append)
    reader = ResponseReader(stream)
    reader.feed(data)
    reader.close()
    if stream.status != 200:
        raise problem_of(stream.response, "/chat/completions", NO_KEY)
    stream.check()
    assert "".join(texts) == stream.text
    stream.text.encode()
    return stream


def outcome_of(data: bytes) -> AnswerStream | RemoteProblem:
    """Return the answer or what is wrong with it; any other error is a bug."""
    try:
        return answered(data)
    except RemoteProblem as problem:
        return problem


@settings(max_examples=300)
@given(head=st.sampled_from(sorted(HEADS)), values=st.lists(JSON, max_size=4))
def test_any_json_is_an_answer_or_a_problem(head: str, values: list[object]) -> None:
    data = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)
    if head != "events":
        data = b"".join(json.dumps(value).encode() for value in values[:1])
    assert isinstance(outcome_of(HEADS[head] + data), AnswerStream | RemoteProblem)


@given(head=st.sampled_from([b"", *HEADS.values()]), data=st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_problem(head: bytes, data: bytes) -> None:
    assert isinstance(outcome_of(head + data), AnswerStream | RemoteProblem)


def events(*choices: object) -> bytes:
    found = (json.dumps({"choices": [choice]}).encode() for choice in choices)
    return HEADS["events"] + b"".join(b"data: " + one + b"\n\n" for one in found)


def test_halves_of_characters_are_replaced() -> None:
    half = {"delta": {"content": "caf\u00e9 \ud83d!"}, "finish_reason": "stop"}
    assert answered(events(half)).text == "caf\u00e9 \ufffd\ufffd\ufffd!"


def test_json_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(RemoteProblem, match="no JSON"):
        answered(HEADS["events"] + b"data: " + b"[" * 100_000 + b"\n\n")


def test_an_answer_without_end_is_bounded() -> None:
    piece = {"delta": {"content": "x" * (TEXT_CHARS_MAX // 4)}}
    with pytest.raises(RemoteProblem, match="more than"):
        answered(events(*[piece] * 5))


def test_a_filtered_answer_is_known() -> None:
    assert answered(events({"delta": {}, "finish_reason": "content_filter"})).is_filtered


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_an_answer_that_broke_off_over_there_is_no_whole_one(reason: str) -> None:
    begun = {"delta": {"content": "The keeper"}}
    with pytest.raises(RemoteProblem, match="reported an error"):
        answered(events(begun, {"delta": {"content": ""}, "finish_reason": reason}))


def test_an_error_beside_choices_is_one() -> None:
    end = {"error": {"code": "server_error"}, "choices": [{"delta": {}, "finish_reason": "stop"}]}
    with pytest.raises(RemoteProblem, match="reported an error"):
        answered(HEADS["events"] + b"data: " + json.dumps(end).encode() + b"\n\n")
    ended = json.dumps({**end, "error": None}).encode()
    assert answered(HEADS["events"] + b"data: " + ended + b"\n\n").reason is FinishReason.STOP


def test_a_content_in_parts_is_its_texts_without_thoughts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Who keeps it?"}]}
    answer = {"type": "text", "text": "Ada Lind."}
    stream = answered(
        events(
            {"delta": {"content": [thinking]}},
            {"delta": {"content": [thinking, answer]}},
            {"delta": {"content": " She does."}, "finish_reason": "stop"},
        )
    )
    assert (stream.text, stream.has_thought) == ("Ada Lind. She does.", True)


def test_a_count_of_tokens_may_come_with_null_for_choices() -> None:
    usage = {"choices": None, "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    ended = events({"delta": {"content": "Ada."}, "finish_reason": "stop"})
    stream = answered(ended + b"data: " + json.dumps(usage).encode() + b"\n\n")
    assert (stream.text, stream.usage) == ("Ada.", usage["usage"])
