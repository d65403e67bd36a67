"""Bad input: a clear error, an exit code other than 0, and nothing that was there is lost."""

import re
import shutil
from pathlib import Path

import pytest

from heddle import RAGraph, Server
from heddle.cli.main import main
from heddle.core.errors import ConfigError, InputError, WorkflowError
from heddle.corpus.backends import backend_of
from heddle.corpus.place import CorpusPlace
from heddle.corpus.store import CorpusStore
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.corpus_rows import rows_of
from tests.helpers.tiny_server import DOCUMENTS, write_model

QUESTION = "Who is the keeper of Rock 3?"


@pytest.fixture
def copy(corpus: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(corpus, tmp_path / "corpus"))


def searchable(corpus: Path) -> int:
    with CorpusStore.open(corpus) as store:
        return store.vector_count


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    assert main([str(argument) for argument in arguments]) == code
    said = capsys.readouterr().err
    assert said.startswith("error: ") or "\nerror: " in said
    assert "Traceback" not in said
    return said


# -- files --------------------------------------------------------------------------------------


def test_a_missing_file(capsys, copy: Path, tmp_path: Path):
    said = refused(capsys, "index", tmp_path / "nope.md", "--into", copy)
    assert "nope.md" in said
    assert searchable(copy) == len(DOCUMENTS)


def test_an_unreadable_pdf_does_not_stop_the_others(
    capsys, copy: Path, documents: Path, tmp_path: Path
):
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing that a reader could use")
    said = refused(capsys, "index", documents, broken, "--into", copy, code=1)
    assert f"error: {broken}: " in said
    assert searchable(copy) == len(DOCUMENTS)


def test_binary_junk_as_a_document(capsys, copy: Path, documents: Path, tmp_path: Path):
    junk = tmp_path / "junk.txt"
    junk.write_bytes(bytes(range(256)) * 64)
    said = refused(capsys, "index", documents, junk, "--into", copy, code=1)
    assert f"error: {junk}: " in said
    assert searchable(copy) == len(DOCUMENTS)


def test_nothing_to_index(capsys, tmp_path: Path):
    empty = tmp_path / "empty"
    empty.mkdir()
    said = refused(capsys, "index", empty, "--into", tmp_path / "corpus")
    assert "nothing to index was found" in said


def test_asking_where_no_corpus_is(capsys, model: Path, tmp_path: Path):
    said = refused(capsys, "ask", tmp_path / "nope", QUESTION, "--model", model)
    assert "heddle index PATH... --into" in said
    CorpusStore.open(tmp_path / "empty", create=True).close()
    said = refused(capsys, "ask", tmp_path / "empty", QUESTION, "--model", model)
    assert "holds nothing to search" in said


def test_a_full_disk_while_indexing(
    capsys, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    new = tmp_path / "new.md"
    new.write_text("# Tides\n" + "The tide tables hang in the hall of the harbour board.\n" * 2000)

    def open_on_a_full_disk(directory: Path, *, create: bool = False) -> CorpusStore:
        place = CorpusPlace.of(directory)
        database = backend_of(place).open_database(place, create=create)
        with database.read() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        return CorpusStore(database, place)

    monkeypatch.setattr(CorpusStore, "open", open_on_a_full_disk)
    said = refused(capsys, "index", new, "--into", copy, code=1)
    monkeypatch.undo()
    assert "disk is full" in said
    with CorpusStore.open(copy) as store:
        assert store.vector_count == len(DOCUMENTS)
        assert store.stats().documents == len(DOCUMENTS)


# -- questions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("", "question is empty"),
        (" \n\t", "question is empty"),
        ("a" * (1 << 20), "question has 1,048,576 characters, the limit is 32,768"),
        ("what is \udcff?", "question is not valid Unicode"),
        ("lighthouse keeper 1821. " * 1300, "2048"),
    ],
    ids=["empty", "blank", "1 MB", "surrogate", "longer than the context"],
)
def test_a_question_that_can_not_be_used(inline_server: Server, question: str, words: str):
    with pytest.raises(InputError, match=re.escape(words)):
        inline_server.app("oneshot").invoke(question)
    assert inline_server.app("oneshot").invoke(QUESTION).text


def test_binary_junk_that_is_text_is_a_question(inline_server: Server):
    junk = bytes(range(256)).decode("latin-1") * 4
    assert inline_server.app("oneshot").invoke(junk).passages


def test_a_wrong_input_is_named(inline_server: Server):
    with pytest.raises(InputError, match="no input wuestion; it takes query"):
        inline_server.submit("oneshot", {"wuestion": "x", "query": "x"})
    with pytest.raises(InputError, match="needs query"):
        inline_server.submit("oneshot", {})
    with pytest.raises(InputError, match="query is empty"):
        inline_server.submit("oneshot", {"query": ""})
    with pytest.raises(InputError, match="query is empty"):
        inline_server.search("")
    with pytest.raises(InputError, match="deadline_s must be positive"):
        inline_server.submit("oneshot", QUESTION, deadline_s=0)
    with pytest.raises(ConfigError, match="priority must be one of"):
        inline_server.submit("oneshot", QUESTION, priority="urgent")


@pytest.mark.usefixtures("inline", "small_kv_cache")
def test_topk_larger_than_the_corpus(capsys, corpus: Path, model: Path, inline_server: Server):
    held = len(DOCUMENTS)
    for topk in (held + 1, 1000):
        with pytest.raises(InputError, match=f"topk is {topk} and the corpus holds {held} chunks"):
            inline_server.submit(RAGraph("all").add_retrieval("find", topk=topk), QUESTION)
    said = refused(capsys, "ask", corpus, QUESTION, "--model", model, "--topk", held + 1)
    assert f"topk is {held + 1} and the corpus holds {held} chunks; lower topk" in said
    exact = RAGraph("exact").add_retrieval("find", topk=held)
    assert len(inline_server.app(exact).invoke(QUESTION).passages) == held
    graph = RAGraph("all").add_retrieval("find", topk=1000, allow_fewer=True)
    passages = inline_server.app(graph).invoke(QUESTION).passages
    assert sorted(p.title for p in passages) == sorted(
        text.splitlines()[0].removeprefix("# ") for text in DOCUMENTS.values()
    )
    with pytest.raises(WorkflowError, match="topk must be in"):
        RAGraph("more").add_retrieval("find", topk=1001)


def test_an_unknown_workflow(capsys, corpus: Path, model: Path, inline_server: Server):
    said = refused(capsys, "ask", corpus, QUESTION, "--workflow", "nope", "--model", model)
    assert "workflow 'nope' is unknown; there are quote, oneshot" in said
    with pytest.raises(WorkflowError, match="'nope' is unknown"):
        inline_server.app("nope")


# -- models -------------------------------------------------------------------------------------


def test_a_model_that_is_not_there(capsys, corpus: Path, model: Path):
    said = refused(capsys, "ask", corpus, QUESTION, "--model", "nope")
    assert "model 'nope' is no directory and no installed model" in said
    said = refused(capsys, "ask", corpus, QUESTION, "--model", model / "config.json")
    assert "is a file; name the directory" in said


def test_a_model_directory_without_safetensors(capsys, corpus: Path, model: Path, tmp_path: Path):
    pickled = Path(shutil.copytree(model, tmp_path / "pickled"))
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    said = refused(capsys, "ask", corpus, QUESTION, "--model", pickled)
    assert "holds no .safetensors" in said


def test_a_model_directory_with_remote_code(corpus: Path, tmp_path: Path):
    remote = write_model(
        tmp_path / "remote", lambda c: c.update(auto_map={"AutoModel": "evil.Model"})
    )
    with pytest.raises(ConfigError, match="remote code"):
        Server(remote, corpus, engine_host="inline")


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("config.json", "{", r"config\.json is not (valid )?JSON"),
        ("tokenizer.json", "{}", r"tokenizer\.json"),
        ("tokenizer.json", '{"model": 7}', "can't be read as a tokenizer"),
        ("chat_template.jinja", "{{ nonsense", "chat template"),
        ("chat_template.jinja", "no message", "doesn't show a user message"),
    ],
)
def test_a_damaged_model_directory(
    corpus: Path, model: Path, tmp_path: Path, file: str, text: str, words: str
):
    damaged = Path(shutil.copytree(model, tmp_path / "damaged"))
    (damaged / file).write_text(text)
    with pytest.raises(ConfigError, match=words):
        Server(damaged, corpus, engine_host="inline", kv_cache_bytes=KV_BYTES)


def test_a_corpus_of_another_embedder(copy: Path, model: Path):
    with rows_of(copy) as connection:
        connection.execute("UPDATE meta SET value = 'other' WHERE key = 'embedder_model'")
    with pytest.raises(ConfigError, match="embedded with 'other'"):
        Server(model, copy, engine_host="inline")
