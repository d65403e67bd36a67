"""A server over a corpus with a search graph and a pool: same passages, followed, restarted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.inline_engines import inline_engines
from heddle import RAGraph, Server
from heddle.app.application import App
from heddle.cli.main import main
from heddle.engines.vector.files.manifest import graph_path
from tests.helpers.degraded import reasons
from tests.helpers.server_state import kill_lane
from tests.helpers.tiny_server import index_documents, write_documents

TOPK = 5
MINE = "# The salt mine of Wend\nThe salt mine of Wend has three levels.\n"
QUESTIONS = ("Which harbour has the bronze bell?", "How many levels has the salt mine of Wend?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("graph") / "documents")


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[list[int]]:
    """What an exact search finds, before there is a graph."""
    corpus = index_documents([folder], folder.parent / "corpus")
    with Server(None, corpus, engine_host="inline") as server:
        return [found(search_app(server), question) for question in QUESTIONS]


@pytest.fixture(scope="module")
def server(folder: Path, expected: list[list[int]]) -> Iterator[Server]:
    corpus = folder.parent / "corpus"
    with inline_engines():
        assert main(["index", str(folder), "--into", str(corpus), "--index-kind", "graph"]) == 0
    assert graph_path(corpus).exists()
    with Server(None, corpus, search_pool="adaptive", search_pool_slo_s=0.2) as running:
        yield running


def search_app(server: Server) -> App:
    return server.app(RAGraph("search").add_retrieval("find", topk=TOPK))


def found(app: App, question: str) -> list[int]:
    return [passage.chunk_id for passage in app.invoke(question).passages]


def test_the_passages_are_those_of_an_exact_search(server: Server, expected: list[list[int]]):
    app = search_app(server)
    assert [found(app, question) for question in QUESTIONS] == expected
    receipt = app.invoke(QUESTIONS[0]).receipt
    assert receipt.nodes_opened > 0
    assert receipt.lists_scanned == receipt.searches_parked == 0
    assert receipt.search_wait_s >= 0.0


def test_a_killed_lane_is_started_again_and_answers(server: Server, expected: list[list[int]]):
    kill_lane(server, "retrieval")
    answer = search_app(server).invoke(QUESTIONS[0])
    assert [passage.chunk_id for passage in answer.passages] == expected[0]
    assert server.health()["lanes"]["retrieval"]["restarts"] == 1


def test_a_document_that_comes_is_found_and_one_that_goes_is_not(server: Server, folder: Path):
    corpus, app = folder.parent / "corpus", search_app(server)
    mine = folder / "mine.md"
    mine.write_text(MINE)
    index_documents([folder], corpus)
    assert "three levels" in app.invoke(QUESTIONS[1]).passages[0].text
    mine.unlink()
    index_documents([folder], corpus, prune=True)
    answer = app.invoke(QUESTIONS[1])
    assert len(answer.passages) == TOPK
    assert all("three levels" not in passage.text for passage in answer.passages)


@pytest.mark.parametrize("lost_shard", ["degrade", "fail"])
def test_a_killed_shard(lost_shard: str, folder: Path, expected: list[list[int]], server: Server):
    """`server` has made the graph; its parts are made by the lanes that start here."""
    with Server(None, folder.parent / "corpus", shards=2, lost_shard=lost_shard) as sharded:
        app = search_app(sharded)
        assert [found(app, question) for question in QUESTIONS] == expected
        kill_lane(sharded, "retrieval-1")
        answer = app.invoke(QUESTIONS[0])
        chunks = [passage.chunk_id for passage in answer.passages]
        if lost_shard == "fail":  # it waited for the lane, or was tried again
            assert chunks == expected[0]
            assert sharded.health()["lanes"]["retrieval-1"]["restarts"] == 1
        else:
            assert any("1 of 2 index shards answered" in one for one in reasons(answer.receipt))
            assert all(chunk % 2 == 0 for chunk in chunks)
            assert [c for c in chunks if c in expected[0]] == [c for c in expected[0] if c % 2 == 0]
