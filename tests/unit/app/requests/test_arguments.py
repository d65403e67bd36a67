"""The arguments that `submit` takes, and its errors for all others."""

from fractions import Fraction

import numpy as np
import pytest

from heddle.app.requests.arguments import input_values, member_named, patience_s, tenant_name
from heddle.core.errors import ConfigError, InputError
from heddle.core.tasks import Priority

CHARS_MAX = 100


def test_input_is_another_name_of_query():
    assert input_values("a", CHARS_MAX) == {"query": "a"}
    assert input_values({"input": "a"}, CHARS_MAX) == {"query": "a"}
    assert input_values({"input": "a", "query": "b"}, CHARS_MAX) == {"input": "a", "query": "b"}


def test_other_inputs_may_be_anything():
    values = {"query": "a", "rows": [1, 2], "limit": None}
    assert input_values(values, CHARS_MAX) == values


@pytest.mark.parametrize(
    "inputs", [None, ["why"], b"why", 3, {1: "why"}, {None: "x", "query": "y"}]
)
def test_inputs_of_another_type_are_refused(inputs: object):
    with pytest.raises(InputError, match=r"inputs: give the question as a string, or a dict"):
        input_values(inputs, CHARS_MAX)


@pytest.mark.parametrize("name", ["query", "input"])
@pytest.mark.parametrize("value", [3, None, b"why", ["why"]])
def test_a_question_that_is_no_text_is_refused(name: str, value: object):
    with pytest.raises(InputError, match=r"query must be a string, got .*\(\w+\)$"):
        input_values({name: value}, CHARS_MAX)


def test_a_large_value_is_not_repeated_whole():
    with pytest.raises(InputError) as refused:
        input_values(["word"] * 10_000, CHARS_MAX)
    assert len(str(refused.value)) < 200


def test_a_text_that_is_no_unicode_is_refused_by_its_slot():
    with pytest.raises(InputError, match="topic is not valid Unicode"):
        input_values({"query": "ok", "topic": "\udc80"}, CHARS_MAX)
    assert input_values({"query": "\U0001f600 é"}, CHARS_MAX) == {"query": "\U0001f600 é"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty: ask something"),
        (" \n\t", "is empty: ask something"),
        ("a" * 101, "has 101 characters, the limit is 100: shorten it"),
        ("\udcff", "is not valid Unicode"),
    ],
)
def test_a_question_that_is_given_by_itself_is_called_so(text: str, problem: str):
    with pytest.raises(InputError, match=f"^question {problem}"):
        input_values(text, CHARS_MAX)


def test_a_tenant_is_a_string():
    assert tenant_name("ada") == "ada"
    for tenant in (7, None, b"ada"):
        with pytest.raises(InputError, match="tenant must be a string, got"):
            tenant_name(tenant)
    with pytest.raises(InputError, match="tenant is not valid Unicode"):
        tenant_name("\udc80")


def test_a_deadline_is_a_number():
    assert patience_s(None) is None
    assert [patience_s(n) for n in (3, 0.5, np.float32(0.5), Fraction(1, 2))] == [3, 0.5, 0.5, 0.5]
    for deadline_s in ("3", True, [3], 1j):
        with pytest.raises(InputError, match="deadline_s must be a number of seconds, got"):
            patience_s(deadline_s)


def test_members_by_name():
    assert member_named(Priority, "bulk", "priority") is Priority.BULK
    assert member_named(Priority, Priority.BULK, "priority") is Priority.BULK
    with pytest.raises(ConfigError, match=r"priority must be one of .*, got 'urgent'"):
        member_named(Priority, "urgent", "priority")
