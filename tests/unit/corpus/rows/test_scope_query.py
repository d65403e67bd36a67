"""Tenants, metadata, and which chunks a scope lets a search find."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from heddle.core.errors import InputError
from heddle.core.passages import NO_PLACE
from heddle.core.search_scope import SearchScope, metadata_of, where_of
from heddle.corpus.chunking import TextChunk
from heddle.corpus.records import PutOutcome
from heddle.corpus.sqlite import schema
from heddle.corpus.sqlite.database import FILE_NAME
from heddle.corpus.store import CorpusStore
from tests.helpers.corpus_rows import rows_of
from tests.unit.corpus.corpora import (
    STAMP,
    chunks,
    document,
    embed,
    put,
    texts_searchable,
    vectors_of,
)


def put_as(store, name, text, tenant="", **metadata):
    item = replace(document(name, text), tenant=tenant, metadata=metadata_of(metadata))
    return store.documents.put_document(item, chunks(*text.split(". ")))


def found(store, tenant="", **where):
    """The texts in a scope, None for all, or [] where the filter is refused."""
    scope = SearchScope(tenant, where_of(where))
    try:
        ids = store.allowed(scope)
    except InputError as error:
        return [] if str(error) == f"where: no passage has {scope}" else [error]
    return None if ids is None else [passage.text for passage in store.passages(ids.tolist())]


def test_metadata_picks_documents(store):
    put_as(store, "a", "one. two", lang="en", tags=["x", "y"])
    put_as(store, "b", "three", lang="de", tags=["y"])
    put_as(store, "c", "four")
    embed(store)
    assert found(store) is None
    assert found(store, lang="en") == ["one", "two"]
    assert found(store, tags="y") == ["one", "two", "three"]
    assert found(store, tags="y", lang="de") == ["three"]
    assert found(store, lang=["de", "en"], tags="x") == ["one", "two"]
    assert found(store, lang="fr") == found(store, author="me") == []


def test_what_is_not_live_is_not_in_a_scope(store):
    put_as(store, "a", "one", lang="en")
    assert found(store, lang="en") == []
    embed(store)
    put_as(store, "a", "new", lang="de")
    assert found(store, lang="en") == ["one"]
    assert found(store, lang="de") == []
    embed(store)
    assert found(store, lang="en") == []
    assert found(store, lang="de") == ["new"]
    store.documents.delete_document("a")
    assert found(store, lang="de") == []


def test_a_tenant_sees_its_own_and_everybodys(store):
    put_as(store, "a", "everybody's")
    put_as(store, "b", "ann's", "ann", lang="en")
    embed(store)
    assert found(store, "ann") is None
    assert found(store) == ["everybody's"]
    put_as(store, "b", "bob's", "bob", lang="en")
    embed(store)
    assert found(store, "ann") == ["everybody's", "ann's"]
    assert found(store, "bob") == ["everybody's", "bob's"]
    assert found(store, "nobody") == found(store) == ["everybody's"]
    assert found(store, "bob", lang="en") == ["bob's"]


def test_ids_are_a_tenants_own(store):
    for tenant in ("", "ann", "bob"):
        assert put_as(store, "a", f"of {tenant}", tenant) is PutOutcome.ADDED
    embed(store)
    assert put_as(store, "a", "of ann, new", "ann") is PutOutcome.CHANGED
    embed(store)
    assert texts_searchable(store) == ["of ", "of bob", "of ann, new"]
    assert store.stats().documents == 3
    assert store.documents.delete_document("a", tenant="bob")
    assert not store.documents.delete_document("a", tenant="bob")
    assert texts_searchable(store) == ["of ", "of ann, new"]


def test_other_metadata_needs_no_new_vectors(store):
    put_as(store, "a", "one", lang="en")
    embed(store)
    revision = store.revision
    assert put_as(store, "a", "one", lang="en") is PutOutcome.UNCHANGED
    assert store.revision == revision
    assert put_as(store, "a", "one", lang="de") is PutOutcome.DESCRIBED
    assert store.revision == revision + 1
    assert store.stats().pending == 0
    assert (found(store, lang="en"), found(store, lang="de")) == ([], ["one"])


def test_a_text_that_is_back_comes_with_its_new_metadata(store):
    put_as(store, "a", "one", lang="en")
    embed(store)
    put_as(store, "a", "two", lang="en")
    assert put_as(store, "a", "one", lang="de") is PutOutcome.DESCRIBED
    assert store.stats().pending == 0
    assert found(store, lang="de") == ["one"]


OLD_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('revision', 1), ('scan', 0), ('embedder_model', 'tiny'),
    ('embedder_dims', 4), ('embedder_dtype', 'float32');
CREATE TABLE sources (name TEXT PRIMARY KEY, sha256 TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (version INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
    source TEXT NOT NULL, title TEXT NOT NULL, sha256 TEXT NOT NULL, collection TEXT NOT NULL,
    tenant TEXT NOT NULL, scan INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'live')), UNIQUE (id, status));
INSERT INTO documents VALUES (1, 'a', '', 'A', 'x', '', '', 0, 'live'),
    (3, 'b', '', 'B', 'y', '', '', 0, 'pending');
CREATE INDEX documents_source ON documents (source);
CREATE TABLE chunks (chunk_id INTEGER PRIMARY KEY AUTOINCREMENT,
    version INTEGER NOT NULL REFERENCES documents (version) ON DELETE CASCADE,
    position INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
    embedded INTEGER NOT NULL DEFAULT 0);
INSERT INTO chunks VALUES (1, 1, 0, 'A', 'old cats', 1), (4, 3, 0, 'B', 'new dogs', 0);
CREATE INDEX chunks_version ON chunks (version);
CREATE INDEX chunks_pending ON chunks (version, chunk_id) WHERE embedded = 0;
CREATE TABLE vectors (chunk_id INTEGER PRIMARY KEY REFERENCES chunks (chunk_id) ON DELETE CASCADE,
    revision INTEGER NOT NULL, vector BLOB NOT NULL);
INSERT INTO vectors VALUES (1, 1, zeroblob(16));
CREATE INDEX vectors_revision ON vectors (revision, chunk_id);
CREATE TABLE tombstones (chunk_id INTEGER PRIMARY KEY, revision INTEGER NOT NULL);
CREATE INDEX tombstones_revision ON tombstones (revision, chunk_id);
INSERT INTO sources VALUES ('/a.jsonl', 'sum', 7, 1), ('/b.md', 'sum', 7, 1);
PRAGMA application_id = {application_id};
PRAGMA user_version = 1;
"""


@pytest.fixture
def old(tmp_path):
    """A corpus as the first Heddle made it."""
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.executescript(OLD_TABLES.format(application_id=schema.APPLICATION_ID))
    connection.close()
    return tmp_path


def test_an_older_corpus_is_brought_up_to_date(old):
    with CorpusStore.open(old) as store:
        assert store.embedder == STAMP
        assert (store.revision, store.stats().documents, store.stats().pending) == (1, 2, 1)
        store.store_vectors([4], vectors_of([4]))
        assert texts_searchable(store) == ["old cats", "new dogs"]
        assert [passage.place for passage in store.passages([1, 4])] == [NO_PLACE, NO_PLACE]
        put(store, "c", "more")
        assert [chunk.chunk_id for chunk in store.documents.pending_chunks(9)] == [5]
        with rows_of(store) as connection:
            assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("SELECT max(version) FROM documents").fetchone() == (4,)
            matches = "SELECT rowid FROM words WHERE words MATCH 'cat OR more' ORDER BY rowid"
            assert connection.execute(matches).fetchall() == [(1,), (5,)]
        store.documents.delete_document("a")
        assert texts_searchable(store) == ["new dogs"]


def test_files_that_may_name_tenants_are_read_anew_after_an_upgrade(old):
    with CorpusStore.open(old) as store:
        lines, text = store.runs.source("/a.jsonl"), store.runs.source("/b.md")
    assert (lines.sha256, lines.size) == ("", -1)
    assert (text.sha256, text.size) == ("sum", 7)


def test_an_upgrade_that_fails_leaves_the_corpus_as_it_was(old):
    """Its last step makes a table of this name, long after it has put others in their places."""
    with closing(sqlite3.connect(old / FILE_NAME)) as connection:
        before = connection.execute("SELECT sql FROM sqlite_master").fetchall()
        connection.execute("CREATE TABLE upload_contents (x)")
        with pytest.raises(sqlite3.OperationalError, match="upload_contents already exists"):
            CorpusStore.open(old)
        connection.execute("DROP TABLE upload_contents")
        assert connection.execute("SELECT sql FROM sqlite_master").fetchall() == before
    with CorpusStore.open(old) as store:
        assert texts_searchable(store) == ["old cats"]


def test_chunks_of_an_older_corpus_lend_their_vectors(old):
    with CorpusStore.open(old) as store:
        assert store.stats().outdated == 1
        same = replace(document("a"), title="A")
        cut = (TextChunk(0, "A", "old cats", 2, 10),)
        assert store.documents.put_document(same, cut, chunking="now") is PutOutcome.CHANGED
        assert [chunk.text for chunk in store.documents.pending_chunks(9)] == ["new dogs"]
        assert store.stats().outdated == 0
        (passage,) = store.passages([5])
        assert (passage.text, passage.place.start, passage.place.end) == ("old cats", 2, 10)
