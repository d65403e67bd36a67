"""GET /v1/documents: pages, tenants, what is refused."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from heddle.corpus.document import Document
from heddle.corpus.store import CorpusStore
from heddle.server.http import create_app
from tests.unit.corpus.corpora import chunks

TEXT = "Some text."
HALF_CHARACTER = base64.urlsafe_b64encode(json.dumps(["\ud800", "a"]).encode()).decode()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        notes = [(f"note-{number}", f"Note {number}", "") for number in range(5)]
        for name, title, tenant in (
            *notes,
            ("note-2", "Acme's own", "acme"),
            ("plan", "The PLAN", "zenith"),
        ):
            store.documents.put_document(
                Document(name, title, TEXT, "", tenant=tenant), chunks(TEXT)
            )
        app = create_app(SimpleNamespace(store=store), {})
        with TestClient(app, base_url="http://localhost") as client:
            yield client


def listed(client: TestClient, **query: object) -> list[tuple[str, str]]:
    """Return ids and tenants of all pages."""
    found: list[tuple[str, str]] = []
    while True:
        reply = client.get("/v1/documents", params=query)
        assert reply.status_code == 200, reply.text
        page = reply.json()
        found += [(one["id"], one["tenant"]) for one in page["documents"]]
        if page["next"] is None:
            return found
        assert page["documents"], "a page with another behind it is never empty"
        query["after"] = page["next"]


def test_a_tenant_sees_its_own_and_those_of_no_tenant(client: TestClient):
    common = [(f"note-{number}", "") for number in range(5)]
    assert listed(client) == common
    assert listed(client, tenant="acme") == sorted([*common, ("note-2", "acme")])
    assert listed(client, tenant="zenith") == [*common, ("plan", "zenith")]


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 200])
def test_pages_hold_each_document_once(client: TestClient, limit: int):
    assert listed(client, tenant="acme", limit=limit) == listed(client, tenant="acme")


def test_a_text_narrows_the_list(client: TestClient):
    assert listed(client, contains="NOTE 3") == [("note-3", "")]
    assert listed(client, contains="plan") == []
    assert listed(client, contains="plan", tenant="zenith") == [("plan", "zenith")]
    assert listed(client, contains="%") == []


def test_a_document_is_described(client: TestClient):
    reply = client.get("/v1/documents", params={"limit": 1}).json()
    assert reply["documents"] == [
        {
            "id": "note-0",
            "tenant": "",
            "title": "Note 0",
            "file": "",
            "collection": "",
            "chunks": 1,
        }
    ]
    assert reply["takes_changes"] is False


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "limit: a number from 1 to 200"),
        ("limit=201", "limit: a number from 1 to 200"),
        ("limit=²", "limit: a number from 1 to 200"),
        ("limit=" + "9" * 5000, "limit: a number from 1 to 200"),
        ("limit=000000050999", "limit: a number from 1 to 200"),
        ("limit=000000050" + "9" * 30, "limit: a number from 1 to 200"),
        ("limit=000000050" + "9" * 5000, "limit: a number from 1 to 200"),
        ("limit=1&limit=2", "each parameter may come once"),
        ("offset=3", "offset: unknown parameter; there are after, contains, limit, tenant"),
        ("after=%00", "after: take the field `next`"),
        ("after=bnVsbA==", "after: take the field `next`"),
        ("after=WzEsMl0=", "after: take the field `next`"),
        (f"after={HALF_CHARACTER}", "after is not valid Unicode"),
        ("tenant=" + "x" * 5000, "tenant: at most"),
        ("contains=" + "x" * 201, "contains: at most 200 characters"),
    ],
)
def test_what_is_wrong_is_named(client: TestClient, query: str, words: str):
    reply = client.get(f"/v1/documents?{query}")
    assert reply.status_code == 400
    assert words in reply.json()["error"]["message"]


def test_a_server_without_a_corpus_says_so():
    with TestClient(create_app(SimpleNamespace(store=None), {}), base_url="http://localhost") as c:
        reply = c.get("/v1/documents")
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "ConfigError")
