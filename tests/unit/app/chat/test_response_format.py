"""The field `response_format`: the form that is asked for, and what is refused by name."""

import pytest

from heddle.app.chat.response_format import format_constraint
from heddle.core.errors import InputError
from heddle.core.prompts.constraint import Constraint

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("given", "constraint"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, Constraint.json_schema({"type": "object"})),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            Constraint.json_schema(SCHEMA),
        ),
    ],
)
def test_what_it_asks_for(given, constraint):
    assert format_constraint(given) == constraint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("json", "response_format.type must be text, json_object or json_schema"),
        ({"type": "grammar"}, "got 'grammar'"),
        ({"type": "json_schema"}, "response_format.json_schema.schema must be a JSON schema"),
        ({"type": "json_schema", "json_schema": {"schema": "{}"}}, "must be a JSON schema"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(InputError, match=message) as refused:
        format_constraint(given)
    assert refused.value.param == "response_format"
