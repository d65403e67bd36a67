"""Filters by attributes: what holds for which file, and every refusal."""

import pytest

from heddle.core.errors import InputError
from heddle.server.stores.filters import DEPTH_MAX, PARTS_MAX, VALUES_MAX, read_filter

FILES = {
    "a": {"year": 1850, "place": "Vik", "open": True},
    "b": {"year": 1900.5, "place": "Holm"},
    "c": {"year": "1850"},
}
KNOWN = {"year", "place", "open"}


def fitting(**given: object) -> str:
    holds = read_filter(given, KNOWN)
    return "".join(name for name, attributes in FILES.items() if holds(attributes))


@pytest.mark.parametrize(
    ("kind", "key", "value", "files"),
    [
        ("eq", "year", 1850.0, "a"),
        ("eq", "year", "1850", "c"),
        ("ne", "year", 1850, "bc"),
        ("ne", "place", "Vik", "bc"),
        ("eq", "open", True, "a"),
        ("eq", "open", 1, ""),
        ("gt", "year", 1850, "b"),
        ("gte", "year", 1850, "ab"),
        ("lt", "year", "1900", "c"),
        ("lte", "place", "Holm", "b"),
        ("in", "place", ["Vik", "Oslo"], "a"),
        ("nin", "place", ["Vik", "Oslo"], "bc"),
        ("in", "year", [], ""),
    ],
)
def test_a_comparison(kind: str, key: str, value: object, files: str):
    assert fitting(type=kind, key=key, value=value) == files


def test_comparisons_are_joined():
    old = {"type": "lt", "key": "year", "value": 1900}
    holm = {"type": "eq", "key": "place", "value": "Holm"}
    assert fitting(type="or", filters=[old, holm]) == "ab"
    assert fitting(type="and", filters=[old, holm]) == ""
    assert fitting(type="and", filters=[{"type": "or", "filters": [old, holm]}, holm]) == "b"


def nested(depth: int) -> dict[str, object]:
    if depth == 1:
        return {"type": "eq", "key": "year", "value": 1}
    return {"type": "and", "filters": [nested(depth - 1)]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("year", "filters must be an object"),
        ({}, r"filters\.type must be one of eq, ne"),
        ({"type": "eq", "value": 1}, r"filters\.key must be the name"),
        ({"type": "eq", "key": "colour", "value": 1}, "the attribute 'colour'; there are open, pl"),
        ({"type": "eq", "key": "year"}, r"filters\.value must be a text"),
        ({"type": "gt", "key": "open", "value": True}, "no order"),
        ({"type": "in", "key": "year", "value": 1}, r"filters\.value must be a list"),
        ({"type": "in", "key": "year", "value": [1] * (VALUES_MAX + 1)}, "a list of up to"),
        ({"type": "or", "filters": []}, r"filters\.filters must be a list"),
        ({"type": "or", "filters": [{"type": "eq"}]}, r"filters\.filters\[0\]\.key"),
        ({"type": "or", "filters": [nested(1)] * PARTS_MAX}, "at most 64 parts"),
        (nested(DEPTH_MAX + 1), "8 inside each other"),
    ],
)
def test_what_is_no_filter_is_refused_by_its_place(given: object, message: str):
    with pytest.raises(InputError, match=message):
        read_filter(given, KNOWN)
