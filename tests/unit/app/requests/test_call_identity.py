"""What a call says of its run: the same by headers as in this process, bounded either way."""

import pytest

from heddle.app.requests.call_identity import (
    DEADLINE,
    DEPTH,
    NODE,
    PRIORITY,
    RUN,
    CallIdentity,
    calling,
    current_call,
)
from heddle.core.errors import DeadlineExceeded, InputError
from heddle.core.tasks import Caller, Priority


def test_headers_carry_all_of_it():
    sent = CallIdentity(Caller("run-1", "antworten ä: %", 3), 2.5, Priority.BULK)
    assert all(value.isascii() for value in sent.headers().values())
    assert CallIdentity.of_headers(sent.headers()) == sent
    plain = CallIdentity(Caller("run-2"))
    assert CallIdentity.of_headers(plain.headers()) == plain


def test_without_a_run_the_other_headers_mean_nothing():
    assert CallIdentity.of_headers({NODE: "x", DEPTH: "junk"}) is None


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (RUN, ""),
        (RUN, "x" * 129),
        (RUN, "a b"),
        (NODE, "a%0Ab"),
        (NODE, "%ff"),
        (NODE, "x" * 129),
        (NODE, "x" * 5000),
        (DEPTH, "-1"),
        (DEPTH, "4097"),
        (DEPTH, "9" * 5000),
        (DEADLINE, "soon"),
        (DEADLINE, "nan"),
        (DEADLINE, "inf"),
        (PRIORITY, "urgent"),
    ],
)
def test_a_header_that_cant_be_used_is_named(header: str, value: str):
    with pytest.raises(InputError, match=header) as refused:
        CallIdentity.of_headers({RUN: "run-1", header: value})
    assert refused.value.param == header


def test_the_run_bounds_what_the_call_asks_for():
    identity = CallIdentity(Caller("run-1"), 2.0, Priority.BULK)
    assert identity.applied({}) == {"deadline_s": 2.0, "priority": Priority.BULK}
    assert identity.applied({"deadline_s": 1.0, "topk": 3})["deadline_s"] == 1.0
    assert identity.applied({"deadline_s": 9.0})["deadline_s"] == 2.0
    assert identity.applied({"priority": "interactive"})["priority"] == "interactive"
    with pytest.raises(DeadlineExceeded, match="run-1"):
        CallIdentity(Caller("run-1"), 0.0).applied({})


def test_a_block_has_its_identity_and_no_longer():
    identity = CallIdentity(Caller("run-1"))
    with calling(identity):
        assert current_call() is identity
        with calling(None):
            assert current_call() is None
    assert current_call() is None
