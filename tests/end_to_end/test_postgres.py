"""A server on a corpus in PostgreSQL, also while that is away."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from heddle import Server
from heddle.cli.main import main
from heddle.core.errors import Unreachable
from heddle.corpus.store import CorpusStore
from tests.helpers.command import Command
from tests.helpers.degraded import reasons
from tests.helpers.postgres import Databases, databases, is_back, name_of
from tests.helpers.server_state import eventually, pid_of
from tests.helpers.tiny_server import index_documents, write_documents, write_model

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
        assert any("can't be reached" in reason for reason in reasons(found.receipt))
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
    assert not any("can't be reached" in reason for reason in reasons(found.receipt))


def test_requests_outlast_a_database_that_is_silent(server: Server, postgres: Databases, url: str):
    before, own = texts(server), texts(server, tenant="ann")
    pid = server.state().lanes["retrieval"].pid
    with postgres.silenced():
        for _ in range(3):  # after a second in which nothing came, each is as quick as ever
            found = server.search(QUESTION, topk=3, deadline_s=10)
            assert [passage.text for passage in found.passages] == before
            assert any("does not answer" in reason for reason in reasons(found.receipt))
        assert texts(server, tenant="ann", deadline_s=10) == own
        assert texts(server, hybrid=True, deadline_s=10)
        with pytest.raises(Unreachable, match="does not answer"):
            server.upsert("other", "More text.")
        assert server.state().corpus_revision is None
    eventually(lambda: is_back(lambda: server.upsert("mine", MINE.format("two"))))
    eventually(lambda: "two levels" in texts(server)[0])
    with CorpusStore.open(url) as other:
        other.documents.delete_document("mine")
    assert server.state().lanes["retrieval"].pid == pid


def test_answers_in_writing_outlast_a_database_that_is_silent(
    postgres: Databases, url: str, tmp_path: Path
):
    model = write_model(tmp_path / "model")
    reuse = {"optimizations": "approx", "kv_reuse": "fusionrag,0.15,always"}
    with Server(model, url, stale_max_s=300, scrub_hours=0, **reuse) as server:
        before = server.submit("oneshot", QUESTION, max_tokens=4).result()
        pid = pid_of(server, "llm")
        with postgres.silenced():
            for _ in range(2):
                found = server.submit("oneshot", QUESTION, max_tokens=4, deadline_s=30).result()
                assert found.passages == before.passages
                said = " ".join(reasons(found.receipt))
                assert "no stored chunk was used: whether one is deleted can't be read" in said
        assert pid_of(server, "llm") == pid, "the lane's steps have waited for the database"


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


@pytest.fixture(scope="module")
def searched_inside(url: str) -> Iterator[Server]:
    """A server whose searches the database carries out."""
    assert main(["index", "--into", url, "--pgvector", "hnsw"]) == 0
    with Server(None, url, search_in="postgres", scrub_hours=0) as running:
        yield running


def test_a_server_searches_inside_the_database(
    searched_inside: Server, server: Server, url: str, postgres: Databases
):
    server.upsert("inside", MINE.format("seven"), tenant="ann")
    for how in ({}, {"tenant": "ann"}, {"tenant": "ann", "hybrid": True}):
        assert texts(searched_inside, **how) == texts(server, **how)
    found = searched_inside.search(QUESTION, topk=3, tenant="ann")
    assert "seven levels" in found.passages[0].text
    assert found.receipt.searched_by == ("pgvector hnsw: ef_search 100",)
    assert found.receipt.degradations == ()
    postgres.stop()
    try:
        with pytest.raises(Unreachable):
            searched_inside.search(QUESTION, topk=3)
    finally:
        postgres.start()
    assert "seven levels" in texts(searched_inside, tenant="ann")[0]
    with CorpusStore.open(url) as other:
        other.documents.delete_document("inside", tenant="ann")
    assert not any("salt mine" in text for text in texts(searched_inside, tenant="ann"))


def test_searches_inside_a_database_that_cannot_are_refused_in_one_sentence(
    postgres: Databases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    made = postgres.new()
    index_documents([write_documents(tmp_path / "documents")], made)
    inside = ["--search-in", "postgres"]
    refused = {
        ("search", made, "levels", *inside): "has no index for searches inside PostgreSQL",
        ("search", str(tmp_path), "levels", *inside): "search_in is postgres, and the corpus is",
        ("search", made, "levels", *inside, "--shards", "2"): "shards is for searches in lanes",
        ("index", "--into", str(tmp_path), "--pgvector", "hnsw"): "no corpus",
    }
    for command, words in refused.items():
        assert main([*command]) == 2
        said = capsys.readouterr().err.strip()
        assert words in said
        assert len(said.splitlines()) == 1
    postgres.run(f"ALTER DATABASE {name_of(made)} SET extension_control_path = '/nowhere'")
    for command in (
        ["search", made, "levels", *inside],
        ["index", "--into", made, "--pgvector", "hnsw"],
    ):
        assert main(command) == 2
        assert "has no pgvector" in capsys.readouterr().err


@pytest.fixture
def cells(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple[Command, httpx.Client]]]:
    """Two servers over one corpus, as on two machines."""
    started = []
    for name in ("one", "two"):
        monkeypatch.setenv("HEDDLE_WORK", str(tmp_path / name))
        started.append(Command(["serve", url, "--port", 0, "--model", "none", "--allow-changes"]))
    clients = [
        httpx.Client(base_url=one.until(r"http://[\d.]+:\d+"), timeout=60) for one in started
    ]
    for one in started:
        one.until("Ctrl-C")
    yield list(zip(started, clients, strict=True))
    for one, client in zip(started, clients, strict=True):
        client.close()
        one.end(signal.SIGTERM)


def test_two_cells_share_a_corpus_and_one_outlasts_the_other(
    cells: list[tuple[Command, httpx.Client]],
):
    (one, client_one), (_, client_two) = cells

    def found(client: httpx.Client) -> str:
        reply = client.post("/v1/search", json={"query": QUESTION, "topk": 1}).raise_for_status()
        return reply.json()["passages"][0]["text"]

    def put(client: httpx.Client, levels: str) -> None:
        document = {"id": "cell-mine", "text": MINE.format(levels)}
        client.post("/v1/documents", json=document).raise_for_status()

    put(client_one, "nineteen")
    assert "nineteen levels" in found(client_two)
    put(client_two, "twenty")
    assert "twenty levels" in found(client_one)
    one.end(signal.SIGKILL)
    assert "twenty levels" in found(client_two)
    put(client_two, "thirty")
    assert "thirty levels" in found(client_two)
    client_two.delete("/v1/documents", params={"id": "cell-mine"}).raise_for_status()
    assert "thirty levels" not in found(client_two)


def test_a_server_that_is_away_is_a_failure_within_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with socket.socket() as silent:  # it takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        for where in (f"postgresql:///docs?host={tmp_path}", f"postgresql://127.0.0.1:{port}/docs"):
            for command in (["search", where, "levels"], ["serve", where, "--port", "0"]):
                assert main(command) == 1
                said = capsys.readouterr().err.strip()
                assert "can't be reached" in said
                assert "check host and port" in said
