"""The OpenAPI document as one HTML page without a script."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final

from heddle.server.api_page.schema_words import FieldWords, Schema, SchemaWords

METHODS: Final = ("get", "post", "put", "patch", "delete")
STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #536270; --line: #c9d3dc;
  --paper: #fff; --box: #eef3f8; --link: #1f5d9c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e9ef; --soft: #a4b3c1;
  --line: #44525f; --paper: #161c22; --box: #25303b; --link: #8ab8ea; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 56rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
a { color: var(--link); }
section { border-top: 1px solid var(--line); margin-top: 2rem; }
nav ul { list-style: none; padding: 0; }
dt { margin-top: .6rem; }
dd { margin-left: 1.2rem; }
code, pre { font: .9em ui-monospace, monospace; background: var(--box); border-radius: 3px;
  padding: .1em .3em; }
pre { padding: .7rem; white-space: pre-wrap; }
.soft { color: var(--soft); }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""What a browser may load for the page: nothing but its own style."""


def api_page(document: Schema) -> str:
    """Return the page of an OpenAPI document."""
    info = document["info"]
    title = f"{info['title']} {info['version']}: HTTP API"
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            *_body(document, title),
            "</main>\n</body>\n</html>\n",
        )
    )


def _body(document: Schema, title: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    yield (
        '<p>For programs: <a href="/openapi.json">openapi.json</a>. A server with keys wants the '
        "header <code>Authorization: Bearer KEY</code> with each request, but for "
        "<code>/health</code>, <code>/ready</code>, <code>/version</code> and this page.</p>"
    )
    operations = list(_operations(document))
    yield '<nav aria-label="Operations"><ul>'
    for method, path, operation in operations:
        name, about = f"{method.upper()} {path}", _first_sentence(operation)
        yield (
            f'<li><a href="#{_anchor(method, path)}"><code>{escape(name)}</code></a> '
            f"{_with_code(about)}</li>"
        )
    yield "</ul></nav>"
    words = SchemaWords(document)
    for method, path, operation in operations:
        yield from _operation(words, method, path, operation)


def _operations(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def _operation(words: SchemaWords, method: str, path: str, operation: Schema) -> Iterator[str]:
    anchor = _anchor(method, path)
    yield f'<section id="{anchor}" aria-labelledby="{anchor}-name">'
    yield f'<h2 id="{anchor}-name"><code>{escape(f"{method.upper()} {path}")}</code></h2>'
    for paragraph in str(operation.get("description", "")).split("\n\n"):
        yield f"<p>{_with_code(paragraph)}</p>"
    parameters = operation.get("parameters", ())
    if parameters:
        yield "<h3>Parameters</h3>"
        yield from _listed(_parameter(words, one) for one in parameters)
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<h3>Body, <code>{escape(media_type)}</code></h3>"
        yield from _listed(words.fields(content.get("schema", {})))
    yield from _answers(operation.get("responses", {}))
    yield f"<h3>With curl</h3>\n<pre>{escape(_curl(words, method, path, operation))}</pre>"
    yield "</section>"


def _listed(fields: Iterable[FieldWords]) -> Iterator[str]:
    yield "<dl>"
    for field in fields:
        more = [field.kind]
        more += ["required"] if field.is_required else []
        more += [f"default {field.default}"] if field.default else []
        note = f'<span class="soft">{escape("; ".join(more))}</span>'
        yield f"<dt><code>{escape(field.name)}</code> {note}</dt>"
        yield f"<dd>{_with_code(field.meaning)}</dd>"
    yield "</dl>"


def _parameter(words: SchemaWords, parameter: Mapping[str, Any]) -> FieldWords:
    return FieldWords(
        parameter["name"],
        f"{words.kind(parameter.get('schema', {}))}, in the {parameter['in']}",
        str(parameter.get("description", "")),
        bool(parameter.get("required")),
        "",
    )


def _answers(responses: Schema) -> Iterator[str]:
    yield "<h3>Replies</h3>\n<ul>"
    for status, response in responses.items():
        kinds = ", ".join(f"<code>{escape(kind)}</code>" for kind in response.get("content", {}))
        name = "any other" if status == "default" else escape(str(status))
        about = escape(str(response.get("description", "")))
        yield f"<li>{name}: {about}{f', {kinds}' if kinds else ''}</li>"
    yield "</ul>"


def _curl(words: SchemaWords, method: str, path: str, operation: Schema) -> str:
    """Return a command with the fields that are required, or the first one where none is."""
    command = "curl" if method == "get" else f"curl -X {method.upper()}"
    query = [f"{p['name']}=..." for p in operation.get("parameters", ()) if p["in"] == "query"]
    url = f"http://127.0.0.1:8321{path}{'?' if query else ''}{'&'.join(query)}"
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return f'{command} "{url}"'
    fields = [field for field in words.fields(content.get("schema", {})) if "." not in field.name]
    shown = [field for field in fields if field.is_required] or fields[:1]
    body = ", ".join(f'"{field.name}": ...' for field in shown)
    return f"{command} \"{url}\" -H 'Content-Type: application/json' -d '{{{body}}}'"


def _anchor(method: str, path: str) -> str:
    return f"{method}-{re.sub(r'[^a-z0-9]+', '-', path.lower()).strip('-')}"


def _first_sentence(operation: Schema) -> str:
    return str(operation.get("description", "")).partition("\n\n")[0]


def _with_code(text: str) -> str:
    """Return a text as HTML, with code where it has backticks."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(" ".join(text.split())))
