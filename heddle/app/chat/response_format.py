"""OpenAI's field `response_format` as a constraint."""

from collections.abc import Mapping
from typing import Final

from heddle.core.errors import InputError
from heddle.core.prompts.constraint import Constraint

FIELD: Final = "response_format"


def format_constraint(response_format: object) -> Constraint | None:
    """Return the form that an answer must have; None = any text.

    Args:
        response_format: `{"type": "text"}`, `{"type": "json_object"}` or `{"type": "json_schema",
            "json_schema": {"schema": {...}}}`; None = it was not given.

    Raises:
        InputError: it is none of these, or its schema can't be a constraint.
    """
    given = {"type": "text"} if response_format is None else response_format
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return Constraint.json_schema({"type": "object"})
    if kind != "json_schema" or not isinstance(given, Mapping):
        raise InputError(
            f"{FIELD}.type must be text, json_object or json_schema, got {kind!r:.60}", param=FIELD
        )
    inner = given.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    if not isinstance(schema, dict):
        raise InputError(f"{FIELD}.json_schema.schema must be a JSON schema", param=FIELD)
    return Constraint.json_schema(schema)
