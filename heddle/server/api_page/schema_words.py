"""A JSON schema in words: the type of a value, and the fields of an object."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

FIELDS_DEPTH_MAX: Final = 3  # of objects in objects; a schema may name itself
BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}


@dataclass(frozen=True, slots=True)
class FieldWords:
    """One field of an object; `name` has the names of the objects around it before a dot."""

    name: str
    kind: str
    meaning: str
    is_required: bool
    default: str


class SchemaWords:
    """Puts schemas into words.

    Args:
        document: the OpenAPI document that references lead into.
    """

    def __init__(self, document: Schema) -> None:
        self._document = document

    def fields(self, schema: Schema, before: str = "", depth: int = 0) -> Iterator[FieldWords]:
        """Yield the fields of an object, each before those of the objects in it."""
        root = self._resolved(schema, schema)
        yield from self._fields(root, root, before, depth)

    def kind(self, schema: Schema, root: Schema | None = None) -> str:
        """Return the type of a value, with its bounds."""
        root = schema if root is None else root
        schema = self._resolved(schema, root)
        if "enum" in schema or "const" in schema:
            return " or ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
        for name in ("anyOf", "oneOf"):
            if name in schema:
                kinds = [self.kind(one, root) for one in schema[name]]
                return " or ".join(dict.fromkeys(kinds))
        bounds = [words.format(_plain(schema[n])) for n, words in BOUNDS.items() if n in schema]
        kind = str(schema.get("type", "any value"))
        if kind == "array":
            kind = f"array of {self.kind(schema.get('items', {}), root)}"
        return f"{kind} ({', '.join(bounds)})" if bounds else kind

    def _fields(
        self, schema: Schema, root: Schema, before: str, depth: int
    ) -> Iterator[FieldWords]:
        required = schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            whole = f"{before}{name}"
            has_default = "default" in field and field["default"] is not None
            yield FieldWords(
                whole,
                self.kind(field, root),
                str(field.get("description", "")),
                name in required,
                json.dumps(field["default"]) if has_default else "",
            )
            inner = self._object_in(field, root)
            if inner is not None and depth + 1 < FIELDS_DEPTH_MAX:
                yield from self._fields(inner, root, f"{whole}.", depth + 1)

    def _object_in(self, field: Schema, root: Schema) -> Schema | None:
        """Return the object with named fields that a field is, or holds; None = none."""
        field = self._resolved(field, root)
        if field.get("properties"):
            return field
        parts = [*field.get("anyOf", ()), *field.get("oneOf", ())]
        parts += [field["items"]] if "items" in field else []
        found = (self._object_in(part, root) for part in parts)
        return next((one for one in found if one is not None), None)

    def _resolved(self, schema: Schema, root: Schema) -> Schema:
        """Follow a reference, into the schema itself or into the document."""
        reference = schema.get("$ref")
        if reference is None:
            return schema
        steps = str(reference).removeprefix("#/").split("/")
        found: Any = root if steps[0] == "$defs" else self._document
        for step in steps:
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        return found if isinstance(found, Mapping) else {}


def _plain(number: object) -> object:
    return int(number) if isinstance(number, float) and number.is_integer() else number
