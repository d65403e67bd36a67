"""`heddle index` up to the vectors: new, changed, moved, removed and bad files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError, InputError, StorageError
from heddle.core.passages import Place, embedding_text
from heddle.corpus import ingestion
from heddle.corpus.chunking import Chunking
from heddle.corpus.indexing_plan import is_gone, plan
from heddle.corpus.ingestion import IngestProgress, IngestReport, ingest_documents
from heddle.corpus.parsing.guarded_parser import GuardedParser
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.pending import pending_batches
from heddle.corpus.records import SourceFile
from heddle.corpus.sqlite import database
from heddle.corpus.store import CorpusStore
from tests.unit.corpus.corpora import chunks, document, embed, texts_searchable


@pytest.fixture
def docs(tmp_path) -> Path:
    directory = tmp_path / "docs"
    directory.mkdir()
    return directory


def write_jsonl(path: Path, **texts: str) -> None:
    lines = (json.dumps({"id": name, "text": text}) for name, text in texts.items())
    path.write_text("\n".join(lines))


def counts(report: IngestReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.unchanged, report.removed


def test_a_first_run(store, docs):
    (docs / "a.txt").write_text("text a")
    (docs / "b.md").write_text("# B\n\ntext b\n\n## Part\n\ntext c")
    write_jsonl(docs / "c.jsonl", x="text x", y="text y")
    seen: list[IngestProgress] = []
    report = ingest_documents(store, [docs], seen.append, chunking=Chunking(size=7))
    assert counts(report) == (4, 0, 0, 0)
    assert (report.files, report.chunks, report.failures, report.skipped) == (3, 5, (), ())
    assert (seen[-1].files_done, seen[-1].files_total) == (3, 3)
    assert (seen[-1].documents, seen[-1].chunks) == (4, 5)
    embed(store)
    assert texts_searchable(store) == ["text a", "text b", "text c", "text x", "text y"]
    titles = [passage.title for passage in store.passages(range(1, 6))]
    assert titles == ["a", "B", "B > Part", "c", "c"]
    ids = [passage.document_id for passage in store.passages([1, 4])]
    assert ids == [str(docs / "a.txt"), "x"]


def test_passages_say_where_they_stand(store, docs, monkeypatch):
    text = "# B\n\ntext b\n\n## Part\n\ntext c"
    (docs / "b.md").write_text(text)
    write_jsonl(docs / "c.jsonl", x="text x")
    monkeypatch.chdir(docs.parent)
    ingest_documents(store, [Path("docs")], chunking=Chunking(size=7))
    embed(store)
    found = [passage.place for passage in store.passages([1, 2, 3])]
    assert found == [
        Place("docs/b.md", None, ("B",), text.index("text b"), text.index("text b") + 6),
        Place("docs/b.md", None, ("B", "Part"), text.index("text c"), len(text)),
        Place("docs/c.jsonl", None, (), 0, 6),
    ]


def test_unchanged_files_are_not_read(store, docs, monkeypatch):
    (docs / "a.txt").write_text("text")
    ingest_documents(store, [docs])
    monkeypatch.setattr(GuardedParser, "documents", None)
    report = ingest_documents(store, [docs])
    assert counts(report) == (0, 0, 0, 0)
    assert report.files_unchanged == 1


def test_a_deleted_document_comes_back_when_its_file_is_named(store, docs):
    (docs / "a.txt").write_text("text a")
    (docs / "b.txt").write_text("text b")
    ingest_documents(store, [docs])
    (file,) = (one.id for one in store.documents.listed() if one.id.endswith("a.txt"))
    store.documents.delete_document(file)
    for paths, restores_deleted in (([docs], True), ([Path(file)], False)):
        report = ingest_documents(store, paths, restores_deleted=restores_deleted)
        assert (report.added, report.without_documents) == (0, (file,))
    report = ingest_documents(store, [docs, Path(file)], restores_deleted=True)
    assert (report.added, report.files_unchanged, report.without_documents) == (1, 1, ())
    assert len(store.documents.listed()) == 2


def test_a_file_with_a_new_time_only_is_read_once(store, docs):
    (docs / "a.txt").write_text("text")
    ingest_documents(store, [docs])
    os.utime(docs / "a.txt", ns=(1, 1))
    assert len(plan([docs], store).touched) == 1
    report = ingest_documents(store, [docs])
    assert (report.files, report.files_unchanged) == (0, 1)
    assert plan([docs], store).touched == ()
    assert store.runs.source(str(docs / "a.txt")).mtime_ns == 1


def test_a_changed_file_of_the_same_size(store, docs):
    (docs / "a.txt").write_text("text one")
    ingest_documents(store, [docs])
    embed(store)
    (docs / "a.txt").write_text("text two")
    os.utime(docs / "a.txt", ns=(1, 1))
    assert counts(ingest_documents(store, [docs])) == (0, 1, 0, 0)
    assert texts_searchable(store) == ["text one"]
    embed(store)
    assert texts_searchable(store) == ["text two"]


def test_a_file_that_was_taken_in_only_in_part_is_read_anew(store, docs):
    write_jsonl(docs / "a.jsonl", x="old x", y="old y")
    before = (docs / "a.jsonl").read_bytes()
    ingest_documents(store, [docs])
    embed(store)
    (docs / "a.jsonl").write_text('{"id": "x", "text": "new x"}\nno JSON')
    assert ingest_documents(store, [docs]).failures
    embed(store)
    assert texts_searchable(store) == ["old y", "new x"]
    (docs / "a.jsonl").write_bytes(before)  # its content is known, but not what is stored
    report = ingest_documents(store, [docs])
    assert (report.files, report.files_unchanged) == (1, 0)
    embed(store)
    assert texts_searchable(store) == ["old y", "old x"]
    assert ingest_documents(store, [docs]).files_unchanged == 1


def test_a_document_moves_to_a_file_that_is_read_first(store, docs):
    write_jsonl(docs / "a.jsonl", x="text x")
    write_jsonl(docs / "b.jsonl", y="text y", z="text z")
    ingest_documents(store, [docs])
    embed(store)
    write_jsonl(docs / "a.jsonl", x="text x", y="text y")
    write_jsonl(docs / "b.jsonl", z="text z")
    report = ingest_documents(store, [docs])
    assert (report.failures, report.removed) == ((), 0)
    embed(store)
    assert sorted(texts_searchable(store)) == ["text x", "text y", "text z"]
    write_jsonl(docs / "b.jsonl", y="text y", z="text z")
    (failure,) = ingest_documents(store, [docs]).failures
    assert f"'y' is not unique: {docs / 'a.jsonl'}" in failure.reason


def test_the_plan(store, docs, tmp_path):
    for name in ("same", "changed", "gone", "other"):
        (docs / f"{name}.txt").write_text(name)
    ingest_documents(store, [docs])
    (docs / "changed.txt").write_text("changed more")
    (docs / "gone.txt").unlink()
    (docs / "new.txt").write_text("new")
    (docs / "x.odt").write_text("x")
    found = plan([docs], store)
    assert [path.name for path in found.added] == ["new.txt"]
    assert [path.name for path in found.changed] == ["changed.txt"]
    assert [path.name for path in found.unchanged] == ["other.txt", "same.txt"]
    assert found.gone == (str(docs / "gone.txt"),)
    assert [Path(note.path).name for note in found.skipped] == ["x.odt"]
    # A path that does not hold the lost file says nothing about it.
    assert plan([docs / "same.txt"], store).gone == ()


def test_the_documents_of_lost_files_are_kept_until_they_are_pruned(store, docs):
    write_jsonl(docs / "a.jsonl", x="text x", y="text y")
    (docs / "b.txt").write_text("text b")
    ingest_documents(store, [docs])
    embed(store)
    (docs / "a.jsonl").unlink()
    for _ in range(2):
        report = ingest_documents(store, [docs])
        assert counts(report) == (0, 0, 0, 0)
        assert report.gone == (str(docs / "a.jsonl"),)
    assert sorted(texts_searchable(store)) == ["text b", "text x", "text y"]

    report = ingest_documents(store, [docs], prune=True)
    assert counts(report) == (0, 0, 0, 2)
    assert report.gone == ()
    assert texts_searchable(store) == ["text b"]
    assert store.runs.source_names() == (str(docs / "b.txt"),)


def test_a_lost_file_that_comes_back_is_not_embedded_again(store, docs):
    (docs / "a.txt").write_text("text a")
    ingest_documents(store, [docs])
    revision = embed(store)
    (docs / "a.txt").unlink()
    ingest_documents(store, [docs])
    (docs / "a.txt").write_text("text a")
    assert counts(ingest_documents(store, [docs])) == (0, 0, 1, 0)
    assert ingest_documents(store, [docs]).files_unchanged == 1
    assert (store.stats().pending, store.revision) == (0, revision)


@pytest.mark.parametrize("named", ["sub", "sub/a.txt"])
def test_pruning_takes_the_name_of_what_is_gone(store, docs, named):
    (docs / "sub").mkdir()
    (docs / "sub/a.txt").write_text("text a")
    (docs / "subway.txt").write_text("text b")
    ingest_documents(store, [docs])
    embed(store)
    (docs / "sub/a.txt").unlink()
    (docs / "sub").rmdir()
    (docs / "subway.txt").unlink()
    with pytest.raises(InputError, match="sub"):
        ingest_documents(store, [docs / named])
    assert counts(ingest_documents(store, [docs / named], prune=True)) == (0, 0, 0, 1)
    assert texts_searchable(store) == ["text b"]  # it was not named
    with pytest.raises(InputError, match="sub"):
        ingest_documents(store, [docs / named], prune=True)


def test_pruning_deletes_nothing_that_is_there(store, docs):
    write_jsonl(docs / "a.jsonl", x="text x")
    ingest_documents(store, [docs])
    embed(store)
    (docs / "a.jsonl").rename(docs / "b.jsonl")
    write_jsonl(docs / "b.jsonl", x="text x")
    report = ingest_documents(store, [docs], prune=True)
    assert (report.removed, report.gone) == (0, ())
    embed(store)
    assert texts_searchable(store) == ["text x"]


def test_lines_that_change_come_and_go(store, docs):
    write_jsonl(docs / "a.jsonl", x="text x", y="text y", z="text z")
    ingest_documents(store, [docs])
    embed(store)
    write_jsonl(docs / "a.jsonl", x="text x", y="text y2", w="text w")
    assert counts(ingest_documents(store, [docs])) == (1, 1, 1, 1)
    embed(store)
    assert sorted(texts_searchable(store)) == ["text w", "text x", "text y2"]


def test_a_jsonl_file_that_moves_keeps_its_vectors(store, docs):
    write_jsonl(docs / "a.jsonl", x="text x", y="text y")
    ingest_documents(store, [docs])
    revision = embed(store)
    (docs / "sub").mkdir()
    (docs / "a.jsonl").rename(docs / "sub/b.jsonl")
    # "a" was the title of lines without one; it is part of a document.
    write_jsonl(docs / "sub/b.jsonl", x="text x")
    ingest_documents(store, [docs / "sub"])
    embed(store)
    ingest_documents(store, [docs], prune=True)
    assert texts_searchable(store) == ["text x"]
    assert store.revision > revision


def test_duplicate_ids(store, docs):
    (docs / "a.jsonl").write_text('{"id": "x", "text": "one"}\n{"id": "x", "text": "two"}')
    (failure,) = ingest_documents(store, [docs]).failures
    assert failure.path == str(docs / "a.jsonl")
    assert "'x' is not unique: twice in this file" in failure.reason
    embed(store)
    assert texts_searchable(store) == ["one"]


def test_duplicate_ids_in_two_files(store, docs):
    write_jsonl(docs / "a.jsonl", x="one")
    ingest_documents(store, [docs])
    embed(store)
    write_jsonl(docs / "b.jsonl", x="two", y="three")
    for _ in range(2):
        (failure,) = ingest_documents(store, [docs]).failures
        assert failure.path == str(docs / "b.jsonl")
        assert f"'x' is not unique: {docs / 'a.jsonl'}" in failure.reason
    assert texts_searchable(store) == ["one"]


def test_a_lost_file_that_is_back_at_the_end_is_not_pruned(store, docs):
    back, other = docs / "a.txt", docs / "b.txt"
    back.write_text("text")
    ingest_documents(store, [docs])
    embed(store)
    back.unlink()
    other.write_text("other")
    report = ingest_documents(store, [docs], lambda _: back.write_text("text"), prune=True)
    assert (report.removed, report.gone) == (0, ())
    assert texts_searchable(store) == ["text"]
    assert counts(ingest_documents(store, [docs], prune=True)) == (0, 0, 1, 0)


def test_others_can_write_while_files_are_looked_at(sqlite_store, docs, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    (docs / "a.txt").write_text("text")
    ingest_documents(sqlite_store, [docs])
    (docs / "a.txt").unlink()
    looks = []
    with CorpusStore.open(sqlite_store.place) as other:

        def look(name):
            looks.append(other.runs.begin_scan())
            return is_gone(name)

        monkeypatch.setattr(ingestion, "is_gone", look)
        assert ingest_documents(sqlite_store, [docs], prune=True).removed == 1
    assert len(looks) == 2


def test_two_runs_over_one_file_at_once_lose_nothing(store):
    first, second = store.runs.begin_scan(), store.runs.begin_scan()
    items = ((document("a", "text", "/a.txt"), chunks("text")),)
    for scan in (second, first):
        store.documents.put_documents(items, scan=scan)
    source = SourceFile("/a.txt", "0" * 64, 4, 1)
    assert [store.runs.finish_source(source, scan) for scan in (second, first)] == [0, 0]
    embed(store)
    assert texts_searchable(store) == ["text"]


def test_a_bad_file_stops_nothing_and_loses_nothing(store, docs):
    (docs / "a.txt").write_text("text a")
    (docs / "b.txt").write_text("text b")
    ingest_documents(store, [docs])
    embed(store)
    (docs / "a.txt").write_bytes(b"\x7fELF\x00\x00")
    (docs / "bad.pdf").write_bytes(b"junk")
    (docs / "c.txt").write_text("text c")
    report = ingest_documents(store, [docs])
    assert counts(report) == (1, 0, 0, 0)
    assert sorted(Path(note.path).name for note in report.failures) == ["a.txt", "bad.pdf"]
    assert not any(note.path in note.reason for note in report.failures)
    embed(store)
    assert sorted(texts_searchable(store)) == ["text a", "text b", "text c"]
    # What failed is tried again.
    assert len(ingest_documents(store, [docs]).failures) == 2


def test_a_bad_line_keeps_what_stands_before_it_and_what_was_there(store, docs):
    write_jsonl(docs / "a.jsonl", x="text x", y="text y")
    ingest_documents(store, [docs])
    embed(store)
    (docs / "a.jsonl").write_text('{"id": "x", "text": "new x"}\noops\n')
    report = ingest_documents(store, [docs])
    assert report.failures[0].path == str(docs / "a.jsonl")
    assert report.failures[0].reason.startswith("line 2: not JSON")
    kept = "; the documents before it are in, those behind it are not read"
    assert report.failures[0].reason.endswith(kept)
    embed(store)
    assert sorted(texts_searchable(store)) == ["new x", "text y"]


def test_a_bad_first_line_is_not_said_to_leave_anything_in(store, docs):
    (docs / "a.txt").write_text("text a")
    (docs / "b.jsonl").write_text('oops\n{"id": "x", "text": "new x"}\n')
    (failure,) = ingest_documents(store, [docs]).failures
    assert failure.reason.startswith("line 1: not JSON")
    assert "are in" not in failure.reason


def test_an_empty_file(store, docs):
    (docs / "a.txt").write_text("text a")
    ingest_documents(store, [docs])
    embed(store)
    (docs / "a.txt").write_text(" \n")
    (docs / "b.jsonl").write_text('{"text": ""}\n')
    report = ingest_documents(store, [docs])
    assert counts(report) == (0, 0, 0, 1)
    assert [note.reason for note in report.skipped] == ["no text in it", "no text in it"]
    assert store.vector_count == 0


def test_an_empty_directory(store, docs):
    report = ingest_documents(store, [docs])
    assert (report.files, report.failures) == (0, ())
    assert store.stats().documents == 0


def test_a_missing_path_does_nothing(store, docs):
    (docs / "a.txt").write_text("text a")
    with pytest.raises(InputError, match="absent"):
        ingest_documents(store, [docs, docs / "absent"])
    assert store.stats().documents == 0


def test_a_named_file_of_an_unknown_format_fails(store, docs):
    (docs / "a.odt").write_text("text a")
    (failure,) = ingest_documents(store, [docs / "a.odt"]).failures
    assert "unknown format" in failure.reason


def test_a_file_that_is_too_large_fails(store, docs):
    (docs / "a.txt").write_text("text" * 100)
    report = ingest_documents(store, [docs], limits=ParseLimits(file_bytes_max=10))
    assert "over the limit" in report.failures[0].reason


def test_another_chunking_cuts_the_named_files_anew(store, docs):
    (docs / "a.txt").write_text("one two three four")
    (docs / "b.txt").write_text("five six seven eight")
    ingest_documents(store, [docs], chunking=Chunking(size=2))
    embed(store)
    report = ingest_documents(store, [docs / "a.txt"])
    assert counts(report) == (0, 1, 0, 0)
    assert texts_searchable(store) == ["one two", "three four", "five six", "seven eight"]
    embed(store)
    assert texts_searchable(store) == ["five six", "seven eight", "one two three four"]
    assert counts(ingest_documents(store, [docs / "a.txt"])) == (0, 0, 0, 0)
    assert store.runs.chunking == Chunking().stamp


def test_the_disk_fills_up_in_the_middle(sqlite_store, sqlite_database, docs):
    store = sqlite_store
    (docs / "a.txt").write_text("text a")
    write_jsonl(docs / "b.jsonl", **{f"d{n}": f"{n} " + "word " * 100 for n in range(1000)})
    with sqlite_database.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 40}")
    with pytest.raises(StorageError, match="disk is full"):
        ingest_documents(store, [docs])
    documents = store.stats().documents
    assert 1 < documents < 1001
    assert (documents - 1) % ingestion.BATCH_DOCUMENTS == 0
    with sqlite_database.read() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    report = ingest_documents(store, [docs])
    assert report.added + documents == 1001
    assert report.unchanged == documents - 1


KILLED = """
import os, sys
from pathlib import Path
from heddle.corpus import ingestion
from heddle.corpus.store import CorpusStore

ingestion.BATCH_DOCUMENTS = 10
batches = 0

def kill_in_the_middle(progress):
    global batches
    batches += 1
    if batches == 7:
        os.kill(os.getpid(), 9)

with CorpusStore.open(sys.argv[1], create=True) as store:
    ingestion.ingest_documents(store, [Path(sys.argv[2])], kill_in_the_middle)
"""


def test_a_killed_run_goes_on(store, docs):
    write_jsonl(docs / "a.jsonl", **{f"d{n}": f"text {n}" for n in range(200)})
    arguments = [sys.executable, "-c", KILLED, store.place.url, str(docs)]
    assert subprocess.run(arguments, check=False).returncode == -9
    assert store.stats().documents == 70
    assert store.runs.source(str(docs / "a.jsonl")) is None
    embed(store)
    assert counts(ingest_documents(store, [docs])) == (130, 0, 70, 0)
    embed(store)
    assert store.vector_count == 200


def test_the_corpus_inside_the_documents_directory(tmp_path):
    from heddle.corpus.store import CorpusStore

    (tmp_path / "a.txt").write_text("text a")
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        (tmp_path / "corpus" / "derived.txt").write_text("not a document")
        report = ingest_documents(store, [tmp_path])
    assert counts(report) == (1, 0, 0, 0)
    assert report.skipped == ()


def test_what_can_not_be_looked_at_is_not_gone(tmp_path, monkeypatch):
    assert is_gone(str(tmp_path / "absent"))
    assert not is_gone(str(tmp_path))

    def refuse(name: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(os, "stat", refuse)
    assert not is_gone("anything")


# What is embedded afterwards


def test_pending_batches_give_each_chunk_once(store, docs):
    write_jsonl(docs / "a.jsonl", **{f"d{n}": f"text {n}" for n in range(10)})
    ingest_documents(store, [docs])
    batches = list(pending_batches(store, 4))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    ids = [chunk.chunk_id for batch in batches for chunk in batch]
    assert ids == sorted(set(ids))


def test_pending_batches_while_vectors_arrive_late_and_documents_go(store, docs):
    write_jsonl(docs / "a.jsonl", **{f"d{n}": f"text {n}" for n in range(10)})
    ingest_documents(store, [docs])
    seen: list[int] = []
    for batch in pending_batches(store, 3):
        seen.extend(chunk.chunk_id for chunk in batch)
        store.documents.delete_document(f"d{batch[-1].chunk_id - 1}")
        if len(seen) == 6:
            embed(store, limit=2)
    assert seen == list(range(1, 11))


def test_pending_batches_need_rows(store):
    with pytest.raises(ConfigError, match="rows"):
        next(pending_batches(store, 0))


def test_what_is_embedded():
    assert embedding_text("A title", "and text") == "A title\nand text"
