"""Raw bytes: requests as the wire has them, then bent."""

from hypothesis import given
from hypothesis import strategies as st

from tools.attacks.exchange import Request, wire
from tools.attacks.fuzz.raw_source import PIECES, bent

GOOD = wire(Request.of_json("/v1/ask", {"question": "why"}), "127.0.0.1:1")


@given(bent(st.just(GOOD)))
def test_bending_changes_one_place_and_keeps_the_rest(found: bytes) -> None:
    shortest, longest = len(GOOD) - 7, len(GOOD) + max(map(len, PIECES))
    assert shortest <= len(found) <= longest
    begin = next((n for n, (a, b) in enumerate(zip(GOOD, found, strict=False)) if a != b), None)
    assert begin is None or GOOD[:begin] == found[:begin]
