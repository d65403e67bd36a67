"""POST /v1/documents/file: files that are put in, and refused."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from heddle.corpus.ingestion import DEFAULT_CHUNKING
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.server.http import create_app
from tests.unit.app.indexing.test_documents import FakeLanes

AT = "/v1/documents/file"
NOTES = {"file": ("notes.md", b"# Mill\nThe mill grinds rye.")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CorpusStore]:
    with CorpusStore.open(tmp_path / "corpus", create=True) as opened:
        opened.set_embedder(EmbedderStamp("fake", 4, "float32"))
        yield opened


def client_of(store: CorpusStore, *, takes_changes: bool = True) -> TestClient:
    lanes = FakeLanes(store)
    server = SimpleNamespace(store=store, submit=lanes.submit, chunking=lambda: DEFAULT_CHUNKING)
    app = create_app(server, {}, takes_changes=takes_changes)
    return TestClient(app, base_url="http://localhost")


def test_a_file_is_put_in_for_a_tenant(store: CorpusStore):
    with client_of(store) as client:
        reply = client.post(AT, files=NOTES, params={"tenant": "ann"})
        assert reply.status_code == 200, reply.text
        body = reply.json()
        assert (body["documents"], body["outcomes"]) == (1, {"added": 1})
        assert (body["chunks"], body["revision"]) == (1, store.revision)
        again = client.post(AT, files=NOTES, params={"tenant": "ann"})
        assert again.json()["outcomes"] == {"unchanged": 1}
    assert [(one.id, one.tenant, one.file) for one in store.documents.listed()] == [
        ("notes.md", "ann", "notes.md")
    ]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"files": {"file": ("run.exe", b"MZ")}}, 400, "is of no type that is read"),
        ({"files": {"file": ("a.pdf", b"%PDF-1.7 no more")}}, 400, "a.pdf: "),
        ({"files": {"other": (None, "x")}}, 400, "no part `file`"),
        ({"files": NOTES, "data": {"purpose": "dinner"}}, 400, "purpose must be one of"),
        ({"files": NOTES, "headers": {"Origin": "https://evil.example"}}, 403, "another site"),
        ({"files": NOTES, "params": {"tenant": "x" * 300}}, 400, "tenant"),
        ({"json": {"file": "x"}}, 415, "multipart/form-data"),
    ],
)
def test_what_can_not_be_taken_is_refused_by_name(
    store: CorpusStore, sent: dict, status: int, words: str
):
    with client_of(store) as client:
        reply = client.post(AT, **sent)
    assert (reply.status_code, words in reply.text) == (status, True), reply.text
    assert list(store.documents.listed()) == []


def test_a_server_without_changes_reads_no_body(store: CorpusStore):
    with client_of(store, takes_changes=False) as client:
        refused = client.post(AT, content=b"never read")
    assert (refused.status_code, "--allow-changes" in refused.text) == (403, True)
