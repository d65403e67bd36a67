"""Constraints that can't be kept are refused with their place; the others become grammars."""

import pytest

from heddle.core.errors import InputError
from heddle.core.prompts.constraint import Constraint

pytest.importorskip("llguidance", reason="llguidance is not installed")

from heddle.engines.llm.constrained.grammar_text import problem_of


def of(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


def link(following):
    return {"$defs": {"n": of(v={"type": "integer"}, next=following)}, "$ref": "#/$defs/n"}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "place", "why"),
    [
        (of(a={"type": "strin"}), "/properties/a/type", "Invalid type"),
        (of(a={**TEXT, "minLength": 5, "maxLength": 2}), "/properties/a", "Unsatisfiable"),
        (of(a=of(b={**TEXT, "pattern": "(?=a)b"})), "/properties/a/properties/b/pattern", "look-"),
        (of(a={"type": "array", "uniqueItems": True}), "/properties/a/uniqueItems", "uniqueItems"),
        (of(a={"type": "integer", "enum": ["a"]}), "/properties/a", "incompatible types"),
        (of(a=False), "/properties/a", "false allows no value"),
        (of(a={"$ref": "#/$defs/x"}), "/properties/a/$ref", "does not exist"),
        (of(a={"$ref": "http://other/x"}), "/properties/a/$ref", "not present in a registry"),
        ({"anyOf": [TEXT, {"type": "string", "not": {}}]}, "/anyOf/1/not", "Unimplemented"),
        (of(**{"a/b": {**TEXT, "format": "zebra"}}), "/properties/a~1b/format", "Unknown format"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "/", "minimum (5) is greater"),
        ({"x-guidance": {"lenient": True}}, "/x-guidance", "leave it out"),
        ({"$ref": "#"}, "/", "can end"),
        (of(a={"$ref": "#"}), "/", "can end"),
        (link({"$ref": "#/$defs/n"}), "/$defs/n", "can end"),
        (link({"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1}), "/$defs/n", "end"),
        (link({"allOf": [{"$ref": "#/$defs/n"}]}), "/$defs/n", "can end"),
    ],
)
def test_a_schema_that_can_not_be_kept_is_refused_with_its_place(schema, place, why):
    problem = problem_of(Constraint.json_schema(schema))
    assert problem.startswith(f"json_schema at {place}: "), problem
    assert why in problem


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint.json_schema(True),
        Constraint.json_schema(link({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]})),
        Constraint.json_schema(link({"type": ["null", "object"], "$comment": "may end"})),
        Constraint.json_schema(link({"type": "array", "items": {"$ref": "#/$defs/n"}})),
        Constraint.json_schema(of(a=TEXT), before="<tool_call>\n", after="\n</tool_call>"),
        Constraint.json_schema(of(**{f"k{i}": {**TEXT, "pattern": "a{9}b*"} for i in range(500)})),
        Constraint.regex(r"[a-z]+ \d{2}"),
        Constraint.choice(["yes", 'no\n"x" | y']),
    ],
    ids=lambda constraint: constraint.source[:40],
)
def test_what_can_be_kept_has_no_problem(constraint):
    assert problem_of(constraint) == ""


@pytest.mark.parametrize(("pattern", "why"), [("(a", "unclosed group"), ("(?<=a)b", "look-behind")])
def test_a_regex_that_can_not_be_kept_is_refused(pattern, why):
    problem = problem_of(Constraint.regex(pattern))
    assert problem.startswith("regex: ")
    assert why in problem


def test_false_is_refused_as_a_whole():
    assert problem_of(Constraint.json_schema(False)) == "json_schema: false allows no text"


def deep(levels):
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"items": value}
    return value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constraint.json_schema("{}"), "json_schema must be an object, got str"),
        (lambda: Constraint.json_schema({"enum": [float("nan")]}), "json_schema is no JSON"),
        (lambda: Constraint.json_schema({"const": object()}), "json_schema is no JSON"),
        (lambda: Constraint.json_schema(deep(100_000)), "nested more than 64 levels deep"),
        (lambda: Constraint.json_schema({"enum": ["x" * 70_000]}), "characters, more than 65,536"),
        (lambda: Constraint.regex("\ud800"), "regex is not valid Unicode"),
        (lambda: Constraint.regex(3), "regex must be a text"),  # type: ignore[arg-type]
        (lambda: Constraint.choice("yes"), "choice must be a list of texts"),
        (lambda: Constraint.choice(["yes", ""]), "none of them empty"),
        (lambda: Constraint.choice([]), "1 to 1,000 texts, got 0"),
        (lambda: Constraint.choice(["x"] * 1_001), "got 1,001"),
    ],
)
def test_a_value_that_is_no_constraint_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
