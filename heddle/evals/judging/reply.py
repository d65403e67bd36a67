"""A judge's replies, read strictly: what is not of the form asked for is no verdict."""

import json
import re
from typing import Final

STATEMENTS_MAX: Final = 20
STATEMENT_CHARS_MAX: Final = 2000
_FENCED: Final = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class MalformedReply(ValueError):
    """A reply that can't be read; the message says why, without its text."""


def read_statements(reply: str) -> tuple[str, ...]:
    """Return an answer's statements; () = it makes none.

    Raises:
        MalformedReply: the reply is no JSON list of at most STATEMENTS_MAX filled strings.
    """
    found = _list(reply, "statements")
    if len(found) > STATEMENTS_MAX:
        raise MalformedReply(f"the judge wrote more than {STATEMENTS_MAX} statements")
    statements = []
    for one in found:
        if not isinstance(one, str) or not one.strip():
            raise MalformedReply("the judge's list of statements holds something that is no text")
        if len(one) > STATEMENT_CHARS_MAX:
            raise MalformedReply(f"a statement has more than {STATEMENT_CHARS_MAX} characters")
        statements.append(" ".join(one.split()))
    return tuple(statements)


def read_verdicts(reply: str, count: int) -> tuple[bool, ...]:
    """Return whether each of `count` statements is supported.

    Raises:
        MalformedReply: the reply is no JSON list of that many numbers 0 and 1.
    """
    found = _list(reply, "verdicts")
    if len(found) != count:
        raise MalformedReply(f"the judge wrote {len(found)} verdicts for {count} statements")
    if not all(type(one) is int and one in (0, 1) for one in found):
        raise MalformedReply("the judge wrote a verdict that is neither 0 nor 1")
    return tuple(one == 1 for one in found)


def _list(reply: str, what: str) -> list[object]:
    """Return the list that a reply is; chat models may put it into one fence of Markdown."""
    text = reply.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        found = json.loads(fenced.group(1) if fenced else text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise MalformedReply(f"the judge's {what} are no JSON list")
    return found
