"""What indexing refuses before it starts an engine."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.support.inline_engines import inline_engines
from heddle.app.index_paths import Embedded, EmbedProgress, embed_pending, index_paths
from heddle.core.errors import ConfigError, InputError, StorageError
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.ingestion import IngestReport, ingest_documents
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.vector.files.manifest import read_manifest


def index(paths: list[Path], into: Path) -> None:
    index_paths(paths, into, on_documents=lambda _: None, on_vectors=lambda _: None)


def test_nothing_to_index_says_why(tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    with pytest.raises(InputError, match="nothing to index was found; name files with text"):
        index([folder], tmp_path / "corpus")
    (folder / "blank.txt").write_text(" \n")
    with pytest.raises(InputError, match=r"nothing to index was found \(.*blank\.txt: "):
        index([folder], tmp_path / "corpus")


def test_a_missing_path_is_named_and_no_corpus_is_made(tmp_path: Path):
    with pytest.raises(InputError, match=r"nope\.md"):
        index([tmp_path / "nope.md"], tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


def test_a_refused_first_run_leaves_nothing(tmp_path: Path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "blank.txt").write_text(" \n")
    (files / "junk.txt").write_bytes(b"\x00")
    before = sorted(tmp_path.rglob("*"))
    for into in (tmp_path / "made/deep/corpus", files, files / "corpus"):
        with pytest.raises(InputError, match="nothing to index was found"):
            index([files], into)
    with pytest.raises(InputError, match="is a file; a corpus needs a directory"):
        index([files], files / "blank.txt")
    with pytest.raises(ConfigError, match=r"config\.json"):
        index_paths(
            [files],
            tmp_path / "corpus",
            embedder=files,
            on_documents=pytest.fail,
            on_vectors=pytest.fail,
        )
    assert sorted(tmp_path.rglob("*")) == before


def test_a_refused_run_leaves_a_corpus_that_was_there(tmp_path: Path):
    CorpusStore.open(tmp_path / "corpus", create=True).close()
    (tmp_path / "blank.txt").write_text(" \n")
    with pytest.raises(InputError, match="nothing to index was found"):
        index([tmp_path / "blank.txt"], tmp_path / "corpus")
    assert CorpusStore.exists(tmp_path / "corpus")


def test_a_refused_first_run_leaves_what_another_run_writes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "a.txt").write_text("Some text.")
    corpus, opened = tmp_path / "corpus", list[CorpusStore]()

    def ingest_beside(*arguments: Any, **options: Any) -> IngestReport:
        opened.append(CorpusStore.open(corpus, create=True))
        return ingest_documents(*arguments, **options)

    monkeypatch.setattr("heddle.app.index_paths.ingest_documents", ingest_beside)
    with pytest.raises(InputError, match="nothing to index was found"):
        index([tmp_path / "blank.txt"], corpus)
    with opened.pop() as other:
        assert ingest_documents(other, [tmp_path / "a.txt"], lambda _: None).added == 1
    with CorpusStore.open(corpus) as store:
        assert store.stats().documents == 1


def test_a_stop_after_the_first_document_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def stop(*_: object) -> Embedded:
        raise KeyboardInterrupt

    monkeypatch.setattr("heddle.app.index_paths.embed_pending", stop)
    (tmp_path / "a.txt").write_text("Some text.")
    with pytest.raises(KeyboardInterrupt):
        index([tmp_path / "a.txt"], tmp_path / "corpus")
    with CorpusStore.open(tmp_path / "corpus") as store:
        assert store.stats().documents == 1


@pytest.mark.slow
def test_a_new_corpus_takes_no_index_of_the_one_that_was_there(tmp_path: Path):
    corpus, mine = tmp_path / "corpus", tmp_path / "corpus" / "index" / "mine.txt"
    digests = []
    for text in ("The mill grinds flour.", "The tide turns."):
        (tmp_path / "a.txt").write_text(text)
        with inline_engines():
            index([tmp_path / "a.txt"], corpus)
        digests.append(read_manifest(corpus).sha256)
        mine.write_text("not Heddle's")
        CorpusStore.remove(corpus)  # as a user does who moves a damaged file away
    assert digests[0] != digests[1]
    assert mine.exists()


def test_a_corpus_that_can_not_be_counted_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: CorpusStore) -> None:
        raise StorageError("the disk refused")

    monkeypatch.setattr(CorpusStore, "stats", refuse)
    (tmp_path / "a.txt").write_text("Some text.")
    with pytest.raises(StorageError):
        index([tmp_path / "a.txt"], tmp_path / "corpus")
    assert CorpusStore.exists(tmp_path / "corpus")


def test_the_corpus_can_not_be_the_folder_to_index(tmp_path: Path):
    (tmp_path / "a.txt").write_text("Some text.")
    with pytest.raises(InputError, match=r"is where the corpus lies \(--into\): name a directory"):
        index([tmp_path], tmp_path)


def test_a_missing_embedder_is_told_before_files_are_read(tmp_path: Path):
    (tmp_path / "a.txt").write_text("Some text.")
    with pytest.raises(InputError, match="'nope' is no directory"):
        index_paths(
            [tmp_path / "a.txt"],
            tmp_path / "corpus",
            embedder="nope",
            on_documents=pytest.fail,
            on_vectors=pytest.fail,
        )


def test_an_index_can_be_pruned_to_nothing(tmp_path: Path):
    lost = tmp_path / "a.txt"
    lost.write_text("Some text.")
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        ingest_documents(store, [lost])
    lost.unlink()
    report = index_paths(
        [lost],
        tmp_path / "corpus",
        prune=True,
        on_documents=pytest.fail,
        on_vectors=pytest.fail,
    )
    assert (report.documents.removed, report.vectors) == (1, 0)


def test_chunks_are_embedded_whose_equal_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    progress: list[EmbedProgress] = []
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(EmbedderStamp("fake", 4, "float32"))
        for name, text in (("a", "same"), ("b", "same"), ("c", "other")):
            put = store.documents.put_document
            put(Document(name, "title", text, ""), [TextChunk(0, "title", text)])
        batches: list[tuple[int, ...]] = []

        def submit(workflow: object, inputs: dict[str, Any], **how: object) -> object:
            ids = inputs["chunk_ids"]
            batches.append(ids)
            store.documents.delete_document("a")
            store.store_vectors(ids, np.ones((len(ids), 4), np.float32) / 2)
            receipt = SimpleNamespace(texts_truncated=1, texts_windowed=0)
            return SimpleNamespace(result=lambda: SimpleNamespace(receipt=receipt), is_done=True)

        lanes = nullcontext(SimpleNamespace(submit=submit))
        monkeypatch.setattr("heddle.app.index_paths.Server.from_config", lambda *_, **__: lanes)
        embedded = embed_pending(store, None, LongTexts.CUT, progress.append)
        assert batches == [(1, 3), (2,)]
        assert (embedded.chunks, embedded.truncated, store.stats().pending) == (3, 2, 0)
        assert store.vector_count == 2
    assert [one.chunks_done for one in progress] == [0, 2, 3]
