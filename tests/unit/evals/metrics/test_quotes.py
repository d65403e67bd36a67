import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.evals.metrics.quotes import (
    QuotedAnswer,
    Reply,
    declined,
    holds,
    in_passages,
    invented,
    right_quote,
    right_span,
)
from heddle.evals.question import EvalQuestion

ASKED = EvalQuestion("q", "Which port?", ("8000", "port 8,000"))
OPEN = EvalQuestion("u", "Which colour?", ())
WRONG = QuotedAnswer("It binds to all interfaces.", "all interfaces")
RIGHT = QuotedAnswer("bind to this port (default: 8000)", "default")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("bind to this port (default: 8000)", "8000"),
        ("from [0,4294967295] on", "4294967295"),
        ("--indent INDENT, --tab", "--indent"),
        ("the -OO flag", "-OO"),
        ("raises\n  a ValueError.", "a ValueError"),
        ("subprocess.TimeoutExpired is raised", "TimeoutExpired"),
        ("pages 3-5", "5"),
        ("value in 1.", "1"),
        ("use (',', ':') here", "(',', ':')"),
    ],
)
def test_what_stands_in_a_text(text, answer):
    assert holds(text, answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("--indent-size", "--indent"),
        ("json.tool", "json"),
        ("ValueErrors", "ValueError"),
        ("0.1 seconds", "1"),
        ("-1 means all", "1"),
        ("level -1", "1"),
        ("18000", "8000"),
        ("1.5", "1"),
        ("-i", "-I"),
        ("", "x"),
    ],
)
def test_what_does_not(text, answer):
    assert not holds(text, answer)


@given(st.text(min_size=1).filter(str.split), st.text(), st.text())
def test_an_answer_stands_between_blanks(answer, before, after):
    assert holds(f"{before} , {answer} , {after}", answer)


def test_the_first_quote_counts_and_the_first_three_apart():
    assert right_quote(Reply(ASKED, [RIGHT, WRONG], ())) == 1.0
    later = Reply(ASKED, [WRONG, WRONG, RIGHT], ())
    assert (right_quote(later), right_quote(later, 3), right_quote(later, 2)) == (0.0, 1.0, 0.0)
    assert right_quote(Reply(ASKED, [], ())) == 0.0
    assert right_span(Reply(ASKED, [RIGHT], ())) == 0.0
    assert right_span(Reply(ASKED, [RIGHT._replace(span="8000")], ())) == 1.0


def test_passages_are_judged_apart_from_quotes():
    assert in_passages(Reply(ASKED, [], ["nothing", "port 8,000"])) == 1.0
    assert in_passages(Reply(ASKED, [RIGHT], ["nothing"])) == 0.0


def test_a_question_without_an_answer_is_to_be_declined():
    assert invented(Reply(OPEN, [WRONG], ())) == 1.0
    assert invented(Reply(OPEN, [], ())) == 0.0
    assert invented(Reply(ASKED, [WRONG], ())) is None
    assert declined(Reply(ASKED, [], ())) == 1.0
    assert declined(Reply(OPEN, [], ())) is None
    assert right_quote(Reply(OPEN, [WRONG], ())) is None
    assert in_passages(Reply(OPEN, [], ["8000"])) is None
