"""How each request is judged."""

from tools.attacks.chaos.ledger import Ledger
from tools.attacks.chaos.told import LONG_TOKENS, Told

RESET = "ConnectionResetError(104)"


def answered(tokens: int = 3, **receipt: object) -> Told:
    fields = {"answer": "yes", "receipt": {"generated_tokens": tokens, **receipt}}
    return Told(status=200, ends=1, answer=fields, shown=["yes"], is_stream=True)


def test_an_answer_is_counted_and_a_long_one_named() -> None:
    ledger = Ledger()
    ledger.add("a", answered(), 0.0, 1.0)
    ledger.add("b", answered(LONG_TOKENS), 0.0, 1.0)
    assert (ledger.requests, ledger.long_answers, ledger.answers_resumed) == (2, 1, 0)
    assert ledger.statuses == {200: 2}
    assert ledger.problems == []


def test_no_end_is_a_loss_and_an_error_is_not() -> None:
    ledger = Ledger()
    ledger.add("a", Told(status=200, is_stream=True, failure="IncompleteRead"), 0.0, 1.0)
    ledger.add("b", Told(status=200, is_stream=True, ends=1), 0.0, 1.0)
    ledger.add("c", Told(status=503, ends=1), 0.0, 1.0)
    assert (ledger.lost, ledger.failed) == (1, 3)
    assert ledger.problems == ["lost: a: IncompleteRead"]


def test_two_ends_and_a_text_shown_twice_are_noted() -> None:
    ledger = Ledger()
    twice = answered()
    twice.ends = 2
    ledger.add("a", twice, 0.0, 1.0)
    repeated = answered()
    repeated.shown = ["yes", "yes"]
    ledger.add("b", repeated, 0.0, 1.0)
    assert (ledger.answered_twice, ledger.shown_twice, ledger.lost) == (1, 1, 0)
    assert len(ledger.problems) == 2


def test_what_was_under_way_at_a_kill_is_cut_and_not_lost() -> None:
    ledger = Ledger()
    ledger.server_killed(5.0)
    ledger.add("under way", Told(failure=RESET), 4.0, 6.0)
    ledger.add("before", Told(failure=RESET), 1.0, 2.0)
    ledger.add("after", Told(failure=RESET), 7.0, 8.0)
    assert (ledger.cut, ledger.lost) == (1, 2)


def test_a_server_that_stops_may_refuse_but_not_drop() -> None:
    ledger = Ledger()
    ledger.server_stops(5.0)
    ledger.add("refused", Told(failure=RESET), 6.0, 6.1)
    assert (ledger.requests, ledger.lost) == (0, 0)
    ledger.add("begun before", Told(failure=RESET), 4.0, 6.0)
    ledger.add("taken", Told(status=200, is_stream=True, failure=RESET), 6.0, 6.1)
    ledger.add("hangs", Told(failure="TimeoutError('timed out')"), 6.0, 96.0)
    assert (ledger.requests, ledger.lost) == (3, 3)
    ledger.server_starts()
    ledger.add("up again", Told(failure=RESET), 7.0, 7.1)
    assert ledger.lost == 4


def test_a_document_that_is_gone_is_lost() -> None:
    ledger = Ledger()
    ledger.lose("boat-1")
    ledger.wrong("a lane outlives its server")
    assert (ledger.lost, ledger.requests) == (1, 0)
    assert ledger.problems == ["boat-1", "a lane outlives its server"]
