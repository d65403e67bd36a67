"""What is counted of a server's replies."""

from tools.attacks.exchange import Reply
from tools.attacks.fuzz.tally import FINDINGS_KEPT, Tally


def test_replies_are_counted_by_status_route_and_workflow() -> None:
    tally = Tally()
    tally.add(b"{}", Reply(200, {}, b"{}"), "POST /v1/ask", "hyde")
    tally.add(b"{", Reply(400, {}, b""), "POST /v1/ask", "hyde")
    tally.add(b"\0", Reply(200, {}, b""))
    assert (tally.requests, tally.accepted, tally.server_errors, tally.crashes) == (3, 2, 0, 0)
    assert tally.statuses == {200: 2, 400: 1}
    assert tally.routes == {"POST /v1/ask": 1}
    assert tally.workflows == {"hyde": 1}
    assert tally.findings == []


def test_a_server_error_is_kept_with_what_was_sent() -> None:
    tally = Tally()
    tally.add(b"\xff", Reply(500, {}, b"oh"), "POST /v1/ask")
    assert (tally.server_errors, tally.accepted) == (1, 0)
    (finding,) = tally.findings
    assert (finding.what, finding.sent, finding.came) == ("500 of POST /v1/ask", "\\xff", "oh")


def test_only_what_should_have_had_an_answer_counts_as_a_crash() -> None:
    tally = Tally()
    tally.add_unanswered(b"\0", "closed", is_crash=False)
    assert tally.crashes == 0
    tally.add_unanswered(b"{}", "reset", is_crash=True)
    tally.add_crash("a lane was started again", "log")
    assert (tally.requests, tally.crashes, tally.statuses) == (2, 2, {0: 2})


def test_a_refused_good_request_is_kept() -> None:
    tally = Tally()
    tally.add_refused_good(b"{}", Reply(400, {}, b"topk"), "POST /v1/ask")
    assert tally.refused_good == 1
    assert tally.findings[0].what == "refused: 400 of POST /v1/ask"


def test_a_reply_that_is_not_as_described_is_kept() -> None:
    tally = Tally()
    tally.add_undescribed(b"{}", Reply(418, {}, b"tea"), "POST /v1/ask: Undocumented status")
    assert (tally.undescribed, tally.server_errors) == (1, 0)
    assert tally.findings[0].what == "not as described: 418 of POST /v1/ask: Undocumented status"


def test_findings_are_bounded() -> None:
    tally = Tally()
    for _ in range(FINDINGS_KEPT + 5):
        tally.add(b"", Reply(500, {}, b""))
    assert tally.server_errors == FINDINGS_KEPT + 5
    assert len(tally.findings) == FINDINGS_KEPT
