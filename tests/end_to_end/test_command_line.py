"""The command as its users have it: a process of its own, interrupted at the worst moment."""

import json
import re
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from benchmarks.support.inline_engines import inline_engines
from heddle.cli.main import main
from heddle.corpus.store import CorpusStore
from heddle.workflow.presets import ANSWER_TOKENS, QUOTE_TOPK
from tests.helpers.server_state import eventually
from tests.helpers.tiny_server import DOCUMENTS, index_documents, write_documents

QUESTION = "Who is the keeper of Rock 3?"
WORKFLOW_FILE = """
from heddle import RAGraph
brief = RAGraph("brief").add_retrieval("find", topk=1)
brief.add_generation("answer", "Say {docs} and {query}.", output="answer", max_tokens=3)
"""

pytestmark = pytest.mark.usefixtures("small_kv_cache")


def test_indexing_is_interrupted_and_goes_on(start, tmp_path: Path):
    barges = tmp_path / "barges.jsonl"
    rows = [
        {"id": f"barge-{number}", "title": f"Barge {number}", "text": f"Slate for lock {number}."}
        for number in range(1024)  # more than are embedded before SIGINT arrives
    ]
    barges.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    corpus = tmp_path / "corpus"
    command = start("index", barges, "--into", corpus)
    command.until(r"embedding chunks: [1-9]")
    assert command.end(signal.SIGINT) == 130
    assert command.said.endswith("stopped\n")
    with CorpusStore.open(corpus) as store:
        before = store.stats()
    assert 0 < before.vectors < before.chunks

    command = start("index", barges, "--into", corpus)  # in a lane: a thousand chunks are quicker
    command.until("ask it: ")
    assert command.end() == 0
    assert "files unchanged since the last run, not read: 1" in command.said
    embedded = int(re.search(r"chunks embedded now: (\d+)", command.said).group(1))
    assert embedded == before.chunks - before.vectors
    with CorpusStore.open(corpus) as store:
        assert store.vector_count == before.chunks


def test_asking_is_interrupted(start, corpus: Path, model: Path):
    command = start("ask", corpus, QUESTION, "--model", model)
    process = psutil.Process(command.process.pid)
    eventually(lambda: len(process.children()) == 2)
    assert command.end(signal.SIGINT) == 130
    assert command.said == "stopped\n"


@pytest.mark.usefixtures("inline")
def test_ask_answers_with_its_passages(capsys, corpus: Path, model: Path):
    assert main(["ask", str(corpus), QUESTION, "--model", str(model), "--receipt"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"\d\.\d{3}  \S+  The lighthouse of Rock 3: ", out)
    assert f"tokens written: {ANSWER_TOKENS}" in out
    assert err == "[retrieve: 5 passages]\n"


@pytest.mark.usefixtures("inline")
def test_ask_runs_ones_own_workflow_with_as_many_passages_as_wanted(
    capsys, corpus: Path, model: Path, tmp_path: Path
):
    workflows = tmp_path / "mine.py"
    workflows.write_text(WORKFLOW_FILE)
    own = ("--workflow", f"{workflows}:brief", "--topk", "4", "--model", str(model))
    assert main(["ask", str(corpus), QUESTION, *own, "--receipt"]) == 0
    out, err = capsys.readouterr()
    assert len(re.findall(r"^  \d\.\d{3}  ", out, re.MULTILINE)) == 4
    assert "tokens written: 3" in out
    assert err.startswith("[find: 4 passages]\n")


def test_serve_until_ctrl_c(start, corpus: Path, model: Path, tmp_path: Path):
    workflows = tmp_path / "mine.py"
    workflows.write_text(WORKFLOW_FILE)
    arguments = ("serve", corpus, "--model", model, "--workflow", f"{workflows}:brief", "--port")
    command = start(*arguments, 0)
    url = command.until(r"http://127\.0\.0\.1:\d+")
    command.until("curl -N")
    assert "brief" in httpx.get(f"{url}/v1/workflows").json()["workflows"]
    body = {"question": QUESTION, "workflow": "brief"}
    found = httpx.post(f"{url}/v1/ask", json=body, timeout=60).json()
    assert found["passages"][0]["title"] in {t.splitlines()[0][2:] for t in DOCUMENTS.values()}
    assert found["receipt"]["generated_tokens"] == 3

    second = start(*arguments, url.rpartition(":")[2])
    assert second.end() == 2
    assert "error: --port" in second.said

    assert command.end(signal.SIGINT) == 130
    assert command.said.endswith("stopped\n")


def test_serve_is_stopped_at_its_greeting(start, corpus: Path):
    command = start("serve", corpus, "--port", 0)
    command.until("curl -N")
    assert command.end(signal.SIGINT) == 130
    assert command.said.endswith("model corpus\nstopped\n")


def test_serve_answers_from_what_is_indexed_meanwhile(
    start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    documents = write_documents(tmp_path / "documents")
    corpus = index_documents([documents], tmp_path / "corpus")
    served = start("serve", corpus, "--port", 0)
    url = served.until(r"http://127\.0\.0\.1:\d+")

    def found(question: str) -> list[str]:
        answer = httpx.post(f"{url}/v1/ask", json={"question": question}, timeout=60).json()
        assert len(answer["passages"]) == QUOTE_TOPK
        return [passage["text"] for passage in answer["passages"]]

    assert "keeper is Clara" in found(QUESTION)[0]
    changed = documents / "lighthouse-3.md"
    changed.write_text(changed.read_text().replace("Clara", "Karl"))
    (documents / "lighthouse-4.md").unlink()
    (documents / "mine.md").write_text("The salt mine of Wend has a bell of bronze.")
    with inline_engines():
        assert main(["index", str(documents), "--into", str(corpus), "--prune"]) == 0
    assert "1 new, 1 changed, 0 unchanged, 1 removed" in "".join(capsys.readouterr())

    assert "keeper is Karl" in found(QUESTION)[0]
    assert not any("Clara" in text for text in found(QUESTION))
    assert not any("Rock 4 " in text for text in found("Who is the keeper of Rock 4?"))
    assert "salt mine" in found("What has the salt mine of Wend?")[0]
    assert served.end(signal.SIGINT) == 130


def test_ask_uses_the_server_that_runs_on_its_corpus(
    start, corpus: Path, capsys: pytest.CaptureFixture[str]
):
    def said(*more: str) -> str:
        with inline_engines():
            assert main(["ask", str(corpus), QUESTION, *more]) == 0
        return "".join(capsys.readouterr())

    alone = said("--no-server")
    served = start("serve", corpus, "--port", 0)
    url = served.until(r"http://127\.0\.0\.1:\d+")
    served.until("Ctrl-C")
    by_server, note = said(), f"answered by the running server at {url}\n"
    assert note in by_server
    assert by_server.replace(note, "") == alone

    assert served.end(signal.SIGINT) == 130
    assert said() == alone


def test_serve_is_terminated_while_it_loads(start, corpus: Path, model: Path):
    command = start("serve", corpus, "--model", model, "--port", 0)
    process = psutil.Process(command.process.pid)
    eventually(lambda: len(process.children()) == 2)
    assert command.end(signal.SIGTERM) == 0
    assert command.said == ""
