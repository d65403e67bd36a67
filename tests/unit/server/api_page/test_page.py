"""GET /docs: everything that the API document says, without a script and a foreign request."""

import asyncio
import base64
import hashlib
import re
from html.parser import HTMLParser

import httpx
import pytest

from heddle.server.api_page.page import api_page
from heddle.server.api_page.schema_words import SchemaWords
from heddle.server.http import create_app

VOID = {"meta", "link", "br"}


class Reader(HTMLParser):
    """Reads a page: its tags are closed in order; keeps ids, links and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.attributes |= set(found)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "src") if name in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def response() -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(object(), {}))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/docs")

    return asyncio.run(run())


def test_the_page_loads_nothing_but_itself(response: httpx.Response) -> None:
    reader = Reader()
    reader.feed(response.text)
    assert response.status_code == 200
    assert not reader.open
    assert reader.tags & {"script", "img", "iframe", "link", "object", "form"} == set()
    assert not {name for name in reader.attributes if name.startswith("on") or name == "style"}
    outside = [link for link in reader.links if not link.startswith("#")]
    assert outside == ["/openapi.json"]
    assert {link.removeprefix("#") for link in reader.links} - {"/openapi.json"} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))


def test_the_policy_allows_the_page_s_own_style_and_nothing_else(response: httpx.Response) -> None:
    policy = response.headers["content-security-policy"]
    [style] = re.findall(r"<style>(.*?)</style>", response.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")


def test_every_operation_and_field_is_there(response: httpx.Response) -> None:
    document = create_app(object(), {}).openapi()
    for path, item in document["paths"].items():
        for method in item:
            assert f"<code>{method.upper()} {path}</code></h2>" in response.text
    asked = document["paths"]["/v1/ask"]["post"]["requestBody"]["content"]["application/json"]
    for name in asked["schema"]["properties"]:
        assert f"<dt><code>{name}</code>" in response.text
    assert "<dt><code>documents.text</code>" in response.text, "fields of objects in it, too"
    assert "curl -X POST &quot;http://127.0.0.1:8321/v1/search&quot;" in response.text


def test_what_a_document_holds_is_no_markup() -> None:
    hostile = "<script>alert(1)</script>"
    operation = {
        "description": f"{hostile} `{hostile}`",
        "parameters": [{"name": hostile, "in": "query", "schema": {"type": hostile}}],
        "responses": {"200": {"description": hostile, "content": {hostile: {}}}},
    }
    page = api_page(
        {"info": {"title": hostile, "version": ""}, "paths": {f"/{hostile}": {"get": operation}}}
    )
    assert "<script" not in page


def test_schemas_in_words() -> None:
    words = SchemaWords({"components": {"schemas": {"Own": {"type": "object"}}}})
    assert words.kind({"type": "integer", "minimum": 1.0, "maximum": 50}) == (
        "integer (at least 1, at most 50)"
    )
    assert words.kind({"anyOf": [{"type": "string"}, {"type": "null"}]}) == "string or null"
    assert words.kind({"enum": ["a", "b"]}) == '"a" or "b"'
    assert words.kind({"type": "array", "items": {"$ref": "#/components/schemas/Own"}}) == (
        "array of object"
    )
    itself = {"properties": {"next": {"$ref": "#/$defs/It"}}}
    itself["$defs"] = {"It": {"properties": itself["properties"], "type": "object"}}
    names = [field.name for field in words.fields(itself)]
    assert names == ["next", "next.next", "next.next.next"]
