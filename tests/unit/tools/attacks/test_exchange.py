"""Which replies are errors of the server's own, and which say how the request was."""

import pytest

from tools.attacks.exchange import Reply, Request, is_server_error, wire

LATER = {"retry-after": "1"}
STREAM = b'event: token\ndata: {"text": "a"}\n\nevent: error\ndata: {"status": %d}\n\n'


@pytest.mark.parametrize(
    ("status", "headers", "is_error"),
    [
        (200, {}, False),
        (404, {}, False),
        (500, {}, True),
        (500, LATER, True),
        (501, {}, True),
        (503, LATER, False),
        (503, {}, True),
        (507, LATER, False),
        (507, {}, True),
    ],
)
def test_a_5xx_is_one_unless_it_says_when_to_come_again(
    status: int, headers: dict[str, str], is_error: bool
) -> None:
    assert is_server_error(b"{}", Reply(status, headers, b"")) == is_error


def test_a_late_answer_is_one_unless_the_request_named_its_deadline() -> None:
    late = Reply(504, {}, b"")
    assert is_server_error(b'{"question": "why"}', late)
    assert not is_server_error(b'{"question": "why", "deadline_s": 0.001}', late)


@pytest.mark.parametrize(("status", "is_error"), [(500, True), (503, False), (400, False)])
def test_a_stream_that_ends_with_an_error_is_judged_by_it(status: int, is_error: bool) -> None:
    reply = Reply(200, {}, STREAM % status)
    assert is_server_error(b"{}", reply) == is_error
    assert not reply.is_accepted


def test_a_whole_answer_is_accepted_and_a_refusal_is_not() -> None:
    assert Reply(200, {}, b"{}").is_accepted
    assert not Reply(400, {}, b"{}").is_accepted


def test_a_route_has_no_query_and_headers_are_added() -> None:
    request = Request("DELETE", "/v1/documents?id=a").with_headers({"A": "b"})
    assert request.route == "DELETE /v1/documents"
    assert request.headers == {"A": "b"}
    assert Request.of_json("/v1/ask", {"topk": 1}).body == b'{"topk": 1}'


def test_a_request_is_written_as_http_has_it() -> None:
    good = wire(Request.of_json("/v1/ask", {"question": "why"}), "127.0.0.1:1")
    head, _, body = good.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /v1/ask HTTP/1.1",
        b"Host: 127.0.0.1:1",
        b"Content-Length: 19",
        b"Content-Type: application/json",
    ]
    assert body == b'{"question": "why"}'
