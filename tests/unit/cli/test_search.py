"""`heddle search`: the request that a server gets, and the output."""

import json
from pathlib import Path

import numpy as np
import pytest

from heddle.app.search import SearchResult
from heddle.cli import search
from heddle.cli.main import main
from heddle.core.errors import InputError
from heddle.core.passages import Passage, Place
from heddle.core.tasks import Optimizations
from heddle.corpus.ingestion import ingest_documents
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.runtime.receipt import ReceiptDraft

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.5, "exact")
PLACE = Place("rocks.pdf", 3, ("Ores", "Iron"))
PASSAGE = Passage(7, "d", "Ores", "Iron is dug in Elmford.\n", 0.25, place=PLACE)


class FakeServer:
    def __init__(self, *passages: Passage) -> None:
        self.passages, self.asked = passages, []
        self.refusal: InputError | None = None

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def search(self, query: str, **how: object) -> SearchResult:
        self.asked.append((query, how))
        if self.refusal is not None:
            raise self.refusal
        return SearchResult(self.passages, RECEIPT)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch):
    def serve(*passages: Passage) -> FakeServer:
        server = FakeServer(*passages)

        def start(config):
            server.config = config
            return server

        monkeypatch.setattr(search, "start_server", start)
        return server

    return serve


def test_rank_distance_place_and_text(served, capsys):
    server = served(PASSAGE)
    assert main(["search", "corpus", "Where is iron?", "--topk", "3", "--where", "lang=en"]) == 0
    assert capsys.readouterr().out == (
        "1. distance 0.250  rocks.pdf:3, Ores > Iron\n   Iron is dug in Elmford.\n"
    )
    how = {"topk": 3, "hybrid": False, "rerank": False, "where": {"lang": ["en"]}, "tenant": ""}
    assert server.asked == [("Where is iron?", how)]
    assert (server.config.generator, server.config.index) == (None, "corpus"), "no model answers"


def test_a_reranked_passage_has_a_score(served, capsys):
    server = served(Passage(7, "d", "Ores", "Iron.", 0.25, score=4.5))
    assert main(["search", "corpus", "iron", "--rerank", "--hybrid"]) == 0
    assert capsys.readouterr().out.startswith("1. score 4.50  d, Ores\n")
    assert server.config.reads, "the extractor ranks"
    assert server.asked[0][1]["rerank"]


def test_json_has_everything(served, capsys):
    served(PASSAGE)
    assert main(["search", "corpus", "iron", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["query"] == "iron"
    assert found["passages"][0]["rank"] == 1
    assert found["passages"][0]["place"]["heading"] == ["Ores", "Iron"]
    assert found["receipt"]["optimizations"] == "exact"


def test_nothing_found_is_exit_code_1(served, capsys):
    served()
    assert main(["search", "corpus", "iron"]) == 1
    assert capsys.readouterr().out == "nothing was found\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--words", "--rerank"], "--words loads no model, and --rerank needs one"),
        (["--topk", "0"], "topk must be an integer from 1 to 1000, got 0"),
    ],
)
def test_refusals(served, capsys, arguments: list[str], words: str):
    served()
    assert main(["search", "corpus", "iron", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus whose chunks have vectors that nothing made sense of."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "mill.txt").write_text("The mill of Elmford grinds flour.")
    (files / "tide.txt").write_text("The tide turns twice a day.")
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        store.set_embedder(EmbedderStamp("e", 2, "float32"))
        ingest_documents(store, [files], lambda _: None)
        ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(9)]
        store.store_vectors(ids, np.tile(np.float32([1.0, 0.0]), (len(ids), 1)))
    return tmp_path / "corpus"


def test_words_alone_need_no_server(corpus: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(search, "start_server")
    assert main(["search", str(corpus), "Who grinds the flours?", "--words"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1. ")
    assert "distance" not in out
    assert "The mill of Elmford grinds flour." in out
    assert main(["search", str(corpus), "lighthouse", "--words"]) == 1
    capsys.readouterr()
    assert main(["search", str(corpus), "flour", "--words", "--json"]) == 0
    [passage] = json.loads(capsys.readouterr().out)["passages"]
    assert passage["distance"] is None


@pytest.mark.parametrize("how", ["--words", "--hybrid"])
def test_a_filter_that_fits_nothing_finds_nothing(how: str, corpus: Path, served, capsys):
    served().refusal = InputError("node 'retrieve': where: no passage has lang=xx")
    assert main(["search", str(corpus), "flour", "--where", "lang=xx", how]) == 1
    out, err = capsys.readouterr()
    assert out == "nothing was found\n"
    assert err == "where: no passage has lang=xx\n"
