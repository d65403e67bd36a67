"""What a server sends becomes values and Heddle's own errors."""

import json

import pytest

from heddle.adapters.remote_reply import ChatStream, error_of
from heddle.core.errors import (
    Busy,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    InputError,
    WorkflowError,
)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "InputError", InputError),
        (400, "WorkflowError", WorkflowError),
        (400, "ConfigError", ConfigError),
        (404, "NotFound", InputError),
        (504, "DeadlineExceeded", DeadlineExceeded),
        (503, "Busy", Busy),
        (429, "TooManyRequests", Busy),
        (500, "InternalServerError", EngineError),
    ],
)
def test_an_error_has_the_class_that_it_has_in_the_server(status, kind, expected):
    error = {"message": "words", "type": kind, "param": "model", "code": "model_not_found"}
    found = error_of(status, json.dumps({"error": error}).encode(), {"retry-after-ms": "2500"})
    assert type(found) is expected
    assert "words" in str(found)
    if isinstance(found, Busy):
        assert found.wait_s == 2.5
    if isinstance(found, InputError):
        assert (found.param, found.code) == ("model", "model_not_found")


@pytest.mark.parametrize(
    "body", [b"<html>no</html>", b"[]", b'{"error": 3}', b"\xff", b"[" * 50_000]
)
def test_a_reply_of_another_server_is_told_with_its_status(body):
    assert "502" in str(error_of(502, body, {}))


def test_a_stream_that_breaks_off_is_no_answer():
    stream = ChatStream("reader")
    assert list(stream.items('data: {"choices": [{"delta": {"content": "a"}}]}')) == ["a"]
    assert list(stream.items("")) == list(stream.items(": comment")) == []
    with pytest.raises(EngineError, match="broke off"):
        stream.reply()


def test_an_error_within_a_stream_ends_it():
    with pytest.raises(DeadlineExceeded, match="late"):
        list(
            ChatStream("reader").items(
                'data: {"error": {"message": "late", "type": "DeadlineExceeded"}}'
            )
        )


@pytest.mark.parametrize(
    "data", ["{", "[" * 50_000, "3", "[3]", '{"error": "late"}', '{"choices": [3]}']
)
def test_an_event_of_another_form_ends_the_chat_with_its_beginning(data):
    with pytest.raises(EngineError, match="sent an event that can't be read: ") as caught:
        list(ChatStream("reader").items(f"data: {data}"))
    assert data[:60] in str(caught.value)
