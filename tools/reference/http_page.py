"""docs/reference/http.md: the endpoints of `heddle serve`, from its OpenAPI description."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

from heddle.server.http import create_app
from heddle.server.json_body import BODY_BYTES_MAX
from tools.reference.docstrings import markdown
from tools.reference.tables import table

HEAD = f"""\
# HTTP

The endpoints of [`heddle serve`](cli.md#heddle-serve). Bodies are JSON, of at most
{BODY_BYTES_MAX >> 20} MiB, with the header `Content-Type: application/json`; files are forms. With
[API keys](../guide/serving.md#keys) every path but `/health`, `/ready`, `/version`, `/docs` and the
files of the [page](../guide/page.md) asks for the header `Authorization: Bearer KEY`. `GET /docs`
shows the same on a page, `GET /openapi.json` to programs.

An error is `{{"error": {{"message": ..., "type": ..., "param": ..., "code": ...}}}}`: the field and
[OpenAI's word](../guide/openai.md#errors) for it, or null. Its status is one of these:
"""
STATUSES: Final = (
    ("400", "the request can't be used; the message names the field"),
    ("401", "the server asks for a key, or doesn't know the one that was sent"),
    ("403", "the server takes no changes, or the key lacks a scope or is another tenant's"),
    ("404", "there is no such path, document, file or vector store"),
    ("405", "the path has no such method"),
    ("408", "the body took too long to come"),
    ("413", "the body is too large"),
    ("415", "the body isn't JSON, or isn't a form where a file is sent"),
    ("421", "the server isn't called by that name; see `--allowed-hosts`"),
    (
        "429",
        "the key's limit is reached; `Retry-After` and `retry-after-ms` say when to come again",
    ),
    ("500", "an engine failed, or a bug; the server's log says more"),
    ("503", "the server is full; `Retry-After` and `retry-after-ms` say when to come again"),
    ("504", "the deadline passed before the answer"),
    ("507", "the disk is full; `Retry-After` and `retry-after-ms` say when to come again"),
)


def http_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    yield from table(("status", "meaning"), STATUSES)
    server: Any = SimpleNamespace()
    described = create_app(server, {}).openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"## {method.upper()} {path}"
            yield ""
            yield from markdown(operation.get("description", ""))
            yield ""
            if "requestBody" in operation:
                [content] = operation["requestBody"]["content"].values()
                yield from _body(content["schema"])


def _body(schema: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    rows = (
        (
            f"`{name}`",
            _type(field),
            "required" if name in required else f"`{_json(field.get('default'), field)}`",
            field.get("description", ""),
        )
        for name, field in schema["properties"].items()
    )
    yield schema["description"].partition("\n")[0]
    yield ""
    yield from table(("field", "type", "default", "meaning"), rows)


def _json(value: object, field: Mapping[str, Any]) -> str:
    if value is None:
        return "{}" if field.get("type") == "object" else "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:  # a model of its own, which its page explains
        return "object"
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if "enum" in field:
        return "one of " + ", ".join(f'`"{word}"`' for word in field["enum"])
    bounds = {
        "exclusiveMinimum": "above {}",
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "not empty",
        "maxLength": "at most {} characters",
    }
    limits = [text.format(f"{field[key]:g}") for key, text in bounds.items() if key in field]
    items = f" of {_type(field['items'])}" if "items" in field else ""
    return ", ".join([f"{field.get('type', 'any')}{items}", *limits])
