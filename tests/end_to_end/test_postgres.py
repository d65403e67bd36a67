"""A server on a corpus in PostgreSQL, also while that is away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import Server
from heddle.cli.main import main
from heddle.core.errors import Unreachable
from heddle.corpus.store import CorpusStore
from tests.helpers.postgres import Databases, databases, name_of
from tests.helpers.tiny_server import index_documents, write_documents

pytestmark = pytest.mark.slow
QUESTION = "How many levels has the salt mine of Wend?"
MINE = "The salt mine of Wend has {} levels, and its bell is of bronze."


@pytest.fixture(scope="module")
def postgres() -> Iterator[Databases]:
    with databases() as found:
        yield found


@pytest.fixture(scope="module")
def url(postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("postgres")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEDDLE_WORK", str(folder / "work"))
        made = postgres.new()
        index_documents([write_documents(folder / "documents")], made)
        yield made


@pytest.fixture(scope="module")
def server(url: str) -> Iterator[Server]:
    with Server(None, url, stale_max_s=300, scrub_hours=0) as running:
        yield running


def texts(server: Server, **how: object) -> list[str]:
    found = server.search(QUESTION, topk=3, **how)
    return [passage.text for passage in found.passages]


def test_a_server_sees_every_change_at_its_next_search(server: Server, url: str):
    assert not any("salt mine" in text for text in texts(server))
    server.upsert("mine", MINE.format("three"))
    assert "three levels" in texts(server)[0]
    with CorpusStore.open(url) as other:
        other.documents.delete_document("mine")
    assert not any("salt mine" in text for text in texts(server))
    server.upsert("mine", MINE.format("eleven"), tenant="ann")
    assert not any("salt mine" in text for text in texts(server))
    assert "eleven levels" in texts(server, tenant="ann", hybrid=True)[0]


def test_searches_outlast_the_database_and_writes_do_not(
    server: Server, postgres: Databases, url: str
):
    before, own = texts(server), texts(server, tenant="ann")
    postgres.stop()
    try:
        found = server.search(QUESTION, topk=3)
        assert [passage.text for passage in found.passages] == before
        assert "can't be reached" in " ".join(found.receipt.fallbacks)
        assert texts(server, tenant="ann") == own
        assert texts(server, hybrid=True)
        with pytest.raises(Unreachable):  # whose passages a new tenant sees is unknown
            server.search(QUESTION, topk=3, tenant="carl")
        with pytest.raises(Unreachable, match="can't be reached"):
            server.upsert("other", "More text.")
    finally:
        postgres.start()
    with CorpusStore.open(url) as other:
        other.documents.delete_document("mine", tenant="ann")
    found = server.search(QUESTION, topk=3, tenant="ann")
    assert not any("salt mine" in passage.text for passage in found.passages)
    assert "can't be reached" not in " ".join(found.receipt.fallbacks)


def test_the_index_lies_in_a_work_directory_of_this_node(url: str, tmp_path: Path):
    with CorpusStore.open(url) as store:
        work = store.place.work
    assert (work / "index" / "manifest.json").exists()


def test_commands_refuse_a_database_in_one_sentence_without_the_password(
    postgres: Databases, url: str, capsys: pytest.CaptureFixture[str]
):
    secret = url.replace("//postgres:@", "//postgres:sesame@")
    empty = postgres.new()
    refused = {
        secret.replace(name_of(url), "nowhere"): "the database refuses the connection",
        secret.replace(name_of(url), name_of(empty)): "no corpus here; make one with: heddle index",
    }
    for where, words in refused.items():
        assert main(["search", where, "levels", "--words"]) == 2
        said = capsys.readouterr()
        assert words in said.err
        assert len(said.err.strip().splitlines()) == 1
        assert "sesame" not in said.out + said.err
    assert main(["doctor", "--index", secret]) in (0, 1)
    said = capsys.readouterr()
    assert "vectors" in said.out
    assert "sesame" not in said.out + said.err
