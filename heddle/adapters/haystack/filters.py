"""Haystack's filters as the metadata that a search of Heddle's asks for."""

from collections.abc import Mapping
from typing import Any, Final

from heddle.core.errors import InputError

FIELD: Final = "filters"
PREFIX: Final = "meta."
EQUAL: Final = frozenset({"==", "in"})


def where_of_filters(filters: Mapping[str, Any] | None) -> dict[str, object] | None:
    """Return what documents must have: for each key the values of which one is enough.

    Args:
        filters: comparisons with `==` and `in`, joined by AND; None = every document will do.

    Raises:
        InputError: it compares in another way; the message names the operator.
    """
    if not filters:
        return None
    where: dict[str, object] = {}
    for key, value in _pairs(filters):
        if key in where:
            raise InputError(
                f"{FIELD}: {key!r} is compared twice: give its values in one comparison with 'in'",
                param=FIELD,
            )
        where[key] = value
    return where


def _pairs(condition: object) -> list[tuple[str, object]]:
    if not isinstance(condition, Mapping) or "operator" not in condition:
        raise InputError(
            f"{FIELD}: a condition has field, operator and value, or operator and conditions; "
            f"got {condition!r:.60}",
            param=FIELD,
        )
    operator = condition["operator"]
    if "field" not in condition:
        return _joined(operator, condition.get("conditions"))
    if operator not in EQUAL:
        raise InputError(
            f"{FIELD}: operator {operator!r:.20} can't be searched for: use '==' or 'in'",
            param=FIELD,
        )
    value = condition.get("value")
    if operator == "in" and not isinstance(value, list | tuple | set | frozenset):
        raise InputError(f"{FIELD}: operator 'in' needs a list of values", param=FIELD)
    held = list(value) if operator == "in" and value is not None else value
    return [(str(condition["field"]).removeprefix(PREFIX), held)]


def _joined(operator: object, conditions: object) -> list[tuple[str, object]]:
    if operator != "AND":
        raise InputError(
            f"{FIELD}: conditions are joined by AND; {operator!r:.20} can't be searched for",
            param=FIELD,
        )
    if not isinstance(conditions, list | tuple) or not conditions:
        raise InputError(f"{FIELD}: AND needs a list of conditions", param=FIELD)
    return [pair for condition in conditions for pair in _pairs(condition)]
