"""A corpus that changes under a running server: what is indexed or deleted shows at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import RAGraph, Server
from heddle.app.application import App
from heddle.core.passages import Passage
from heddle.corpus.store import CorpusStore
from tests.helpers.empty_server import serve_empty
from tests.helpers.tiny_server import index_documents, write_documents

TOPK = 5
MINE = "# The salt mine of Wend\nThe salt mine of Wend has {} levels, and its bell is of bronze.\n"
QUESTION = "How many levels has the salt mine of Wend?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("changing") / "documents")


@pytest.fixture(scope="module")
def indexed(folder: Path) -> Path:
    return index_documents([folder], folder.parent / "corpus")


@pytest.fixture(scope="module")
def search(indexed: Path) -> Iterator[App]:
    with Server(None, indexed) as server:
        yield server.app(RAGraph("search").add_retrieval("find", topk=TOPK, output="docs"))


def passages(search: App) -> tuple[Passage, ...]:
    found = search.invoke(QUESTION).passages
    assert len(found) == TOPK
    return found


def test_documents_come_change_and_go(search: App, folder: Path, indexed: Path):
    assert "The salt mine of Wend" not in [p.title for p in passages(search)]

    mine = folder / "mine.md"
    mine.write_text(MINE.format("three"))
    index_documents([folder], indexed)
    assert "has three levels" in passages(search)[0].text

    mine.write_text(MINE.format("eleven"))
    index_documents([folder], indexed)
    first, *others = passages(search)
    assert "has eleven levels" in first.text
    assert all("levels" not in passage.text for passage in others)

    mine.unlink()
    index_documents([folder], indexed)
    assert passages(search)[0] == first
    index_documents([folder], indexed, prune=True)
    assert "The salt mine of Wend" not in [p.title for p in passages(search)]


def test_a_document_that_is_deleted_is_not_found_again(search: App, indexed: Path):
    nearest = passages(search)[0]
    with CorpusStore.open(indexed) as store:
        assert store.documents.delete_document(nearest.document_id)
    assert nearest not in passages(search)


def test_a_server_that_began_empty_finds_what_is_indexed(folder: Path, tmp_path: Path):
    corpus = tmp_path / "corpus"
    CorpusStore.open(corpus, create=True).close()
    with serve_empty(corpus, engine_host="inline") as server:
        graph = RAGraph("search").add_retrieval("find", topk=TOPK, allow_fewer=True)
        search = server.app(graph)
        assert search.invoke(QUESTION).passages == ()
        (folder / "mine.md").write_text(MINE.format("three"))
        index_documents([folder], corpus)
        assert "has three levels" in passages(search)[0].text
