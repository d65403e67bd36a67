"""Raw bytes: requests as the wire has them, then bent."""

from hypothesis import given
from hypothesis import strategies as st

from tools.attacks.exchange import Request
from tools.attacks.fuzz.raw_source import PIECES, bent, wire

GOOD = wire(Request.of_json("/v1/ask", {"question": "why"}), "127.0.0.1:1")


def test_a_request_is_written_as_http_has_it() -> None:
    head, _, body = GOOD.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /v1/ask HTTP/1.1",
        b"Host: 127.0.0.1:1",
        b"Content-Length: 19",
        b"Content-Type: application/json",
    ]
    assert body == b'{"question": "why"}'


@given(bent(st.just(GOOD)))
def test_bending_changes_one_place_and_keeps_the_rest(found: bytes) -> None:
    shortest, longest = len(GOOD) - 7, len(GOOD) + max(map(len, PIECES))
    assert shortest <= len(found) <= longest
    begin = next((n for n, (a, b) in enumerate(zip(GOOD, found, strict=False)) if a != b), None)
    assert begin is None or GOOD[:begin] == found[:begin]
