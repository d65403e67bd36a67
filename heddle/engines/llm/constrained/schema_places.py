"""Where in a JSON schema something is wrong: JSON pointers (RFC 6901)."""

from collections.abc import Callable, Iterator
from typing import Any, Final

OF_MAPPINGS: Final = ("properties", "patternProperties", "$defs", "definitions")
OF_ONE: Final = ("items", "additionalProperties")
OF_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
DEFINITIONS: Final = ("$defs", "definitions")
CHECKS_MAX: Final = 500  # of parts of a schema that can't be used

Refusal = Callable[[object], str]


def find_place(schema: dict[str, Any], problem: str, refusal: Refusal) -> tuple[str, str]:
    """Return the smallest part of a schema that can't be used, and why.

    Args:
        schema: can't be used.
        problem: why.
        refusal: returns why a schema can't be used; empty if it can.
    """
    pointer, node, left = "", schema, CHECKS_MAX
    definitions = {key: schema[key] for key in DEFINITIONS if key in schema}

    def check(part: object) -> str:
        nonlocal left
        left -= 1
        if left < 0:
            return ""
        return refusal({**definitions, **part} if isinstance(part, dict) else part)

    while True:
        for place, part in subschemas(node):
            found = check(part)
            # A part alone lacks what its references point to, unless it stands in definitions.
            if found and ("does not exist" in found) <= ("does not exist" in problem):
                pointer, problem = pointer + place, found
                break
        else:
            return pointer + _keyword(node, check), problem
        if not isinstance(part, dict):
            return pointer, problem
        node = part


def _keyword(node: dict[str, Any], check: Refusal) -> str:
    """Return the place of the one keyword without which a schema could be used, if there is one."""
    guilty = [
        key
        for key in node
        if key not in OF_MAPPINGS
        and not check({other: value for other, value in node.items() if other != key})
    ]
    return f"/{_escaped(guilty[0])}" if len(guilty) == 1 else ""


def find_endless(schema: dict[str, Any]) -> str | None:
    """Return the place of a schema whose every value would have to hold another of it, or None.

    Least fixed point: a reference counts as ending once its target has been seen to end.
    """
    targets = {ref: resolved(schema, ref) for ref in _references(schema)}
    ending: set[str] = set()
    while True:
        new = {ref for ref in targets.keys() - ending if _can_end(targets[ref], ending)}
        if not new:
            break
        ending |= new
    if _can_end(schema, ending):
        return None
    first = next((ref for ref in sorted(targets) if ref not in ending), "#")
    return first.removeprefix("#")


def subschemas(schema: object) -> Iterator[tuple[str, Any]]:
    """Yield the schemas that a schema holds, and where; definitions last."""
    if not isinstance(schema, dict):
        return
    for key in OF_ONE:
        if isinstance(schema.get(key), dict):  # false there closes a schema, and is no error
            yield f"/{key}", schema[key]
    for key in OF_LISTS:
        for place, part in enumerate(_list(schema.get(key))):
            yield f"/{key}/{place}", part
    for key in OF_MAPPINGS:
        part_of = schema.get(key)
        for name, part in part_of.items() if isinstance(part_of, dict) else ():
            yield f"/{key}/{_escaped(name)}", part


def resolved(schema: dict[str, Any], reference: str) -> object:
    """Return what a reference within a schema points to; True (anything) where it can't be read."""
    found: Any = schema
    for name in reference.removeprefix("#").split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            return True
    return found


def _references(schema: object) -> set[str]:
    found: set[str] = set()
    waiting: list[object] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            found.add(part["$ref"])
        waiting += [inner for _, inner in subschemas(part)]
    return found


def _can_end(schema: object, ending: set[str]) -> bool:
    """Whether a schema has a value of finite length, by the references known to have one."""
    if not isinstance(schema, dict) or "enum" in schema or "const" in schema:
        return True
    if schema.get("$ref", "") and schema["$ref"] not in ending:
        return False
    choices = [part for key in ("anyOf", "oneOf") for part in _list(schema.get(key))]
    if choices and not any(_can_end(part, ending) for part in choices):
        return False
    if not all(_can_end(part, ending) for part in _list(schema.get("allOf"))):
        return False
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(_list(kinds))
    if kinds - {"object", "array"}:
        return True
    return ("object" not in kinds or _object_can_end(schema, ending)) and (
        "array" not in kinds or _array_can_end(schema, ending)
    )


def _object_can_end(schema: dict[str, Any], ending: set[str]) -> bool:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = [known[name] for name in _list(schema.get("required")) if name in known]
    return all(_can_end(part, ending) for part in required)


def _array_can_end(schema: dict[str, Any], ending: set[str]) -> bool:
    least = schema.get("minItems", 0)
    if not isinstance(least, int) or least < 1:
        return True
    first = _list(schema.get("prefixItems"))
    rest = [schema["items"]] if len(first) < least and isinstance(schema.get("items"), dict) else []
    return all(_can_end(part, ending) for part in (*first[:least], *rest))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
