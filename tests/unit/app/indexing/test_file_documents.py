"""Files put into a corpus while it is served: as `heddle index` reads them, or not at all."""

import gzip
import tempfile
from pathlib import Path

import pytest

from heddle.app.indexing import file_documents
from heddle.app.indexing.file_documents import put_file
from heddle.core.errors import InputError, StorageError
from heddle.corpus.ingestion import DEFAULT_CHUNKING
from heddle.corpus.records import EmbedderStamp, PutOutcome
from heddle.corpus.store import CorpusStore
from tests.unit.app.indexing.test_documents import FakeLanes, texts_of
from tests.unit.corpus.parsing.pdfs import pdf

LINES = b'{"id": "tern", "text": "A tern dives.", "tenant": "zenith"}\n{"text": "A gull."}\n'


@pytest.fixture
def store(tmp_path: Path):
    with CorpusStore.open(tmp_path, create=True) as opened:
        opened.set_embedder(EmbedderStamp("fake", 4, "float32"))
        yield opened


def put(store: CorpusStore, name: str, content: bytes, tenant: str = "") -> dict[str, int]:
    lanes = FakeLanes(store)
    change = put_file(lanes, store, name, content, tenant=tenant, chunking=DEFAULT_CHUNKING)
    assert change.revision == store.revision
    return {outcome.value: count for outcome, count in change.outcomes.items()}


def listed(store: CorpusStore) -> list[tuple[str, str, str]]:
    return [(one.id, one.tenant, one.file) for one in store.documents.listed()]


def test_a_pdf_is_found_under_its_name_and_replaced(store: CorpusStore):
    assert put(store, "ferry.pdf", pdf("The ferry leaves.", "Torvald steers.")) == {"added": 1}
    assert listed(store) == [("ferry.pdf", "", "ferry.pdf")]
    [passage] = store.passages([int(one) for batch in store.vectors() for one in batch.chunk_ids])
    assert (passage.place.file, passage.place.page) == ("ferry.pdf", 1)
    assert put(store, "ferry.pdf", pdf("The ferry leaves.", "Torvald steers.")) == {"unchanged": 1}
    assert put(store, "ferry.pdf", pdf("The ferry is gone.")) == {"changed": 1}
    assert texts_of(store) == ["The ferry is gone."]


def test_lines_have_their_ids_and_the_callers_tenant(store: CorpusStore):
    assert put(store, "birds.jsonl", LINES, tenant="acme") == {"added": 2}
    ids = {one for one, tenant, file in listed(store) if (tenant, file) == ("acme", "birds.jsonl")}
    assert "tern" in ids
    assert len(ids) == 2
    assert not any("heddle-file-" in one for one in ids)


def test_lines_that_a_file_has_no_longer_go(store: CorpusStore):
    lines = [b'{"text": "A tern dives."}', b'{"text": "A gull."}', b'{"text": "A crow."}']
    for tenant in ("", "acme", "zenith"):
        put(store, "birds.jsonl", b"\n".join(lines), tenant=tenant)
    put(store, "birds.jsonl", b"\n".join(lines[:2]), tenant="acme")
    ids = {(one, tenant) for one, tenant, _ in listed(store)}
    assert ids == {
        *((f"birds.jsonl#{n}", tenant) for n in (1, 2, 3) for tenant in ("", "zenith")),
        *((f"birds.jsonl#{n}", "acme") for n in (1, 2)),
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.pdf", b"%PDF-1.7 and no more", r"^bad\.pdf: "),
        ("empty.md", b" \n", r"^empty\.md: no text in it"),
        (
            "lines.jsonl",
            b'{"text": "A gull."}\n{"text": 3}\n',
            r"^lines\.jsonl, line 2: needs a .*; nothing was stored$",
        ),
        (
            "bomb.jsonl.gz",
            gzip.compress(b"\n" * 1_000_001),
            r"^bomb\.jsonl\.gz: over the limit of 1,000,000 lines; split it",
        ),
        ("many.jsonl", LINES + LINES, r"^many\.jsonl: has more than 3 documents: use heddle index"),
    ],
)
def test_a_file_that_can_not_be_used_leaves_nothing(
    store: CorpusStore, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
):
    monkeypatch.setattr(file_documents, "DOCUMENTS_MAX", 3)
    with pytest.raises(InputError, match=message):
        put(store, name, content)
    assert listed(store) == []
    assert put(store, "three.jsonl", LINES + b'{"text": "A crow."}') == {PutOutcome.ADDED.value: 3}


def test_where_nothing_can_be_written_no_bug_is_named(
    store: CorpusStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StorageError, match=r"^the folder of temporary files \(TMPDIR\): "):
        put(store, "a.md", b"A gull.")
    assert listed(store) == []
