"""`heddle backup` and `heddle restore` beside a server that runs on the corpus."""

import json
import urllib.request
from pathlib import Path

import pytest

from heddle import Server
from tests.helpers.command import Command
from tests.helpers.tiny_server import index_documents, write_documents

QUESTION = "Who is the keeper of Rock 3?"


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    return index_documents([write_documents(tmp_path / "documents")], tmp_path / "corpus")


def run(start, *arguments: object) -> Command:
    command = start(*arguments)
    command.process.wait(timeout=120)
    command.end()
    return command


def search(url: str) -> list[tuple[str, str]]:
    body = json.dumps({"query": QUESTION}).encode()
    request = urllib.request.Request(f"{url}/v1/search", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        found = json.load(response)["passages"]
    return [(passage["document_id"], passage["text"]) for passage in found]


def test_a_served_corpus_is_copied_and_answers_the_same(start, indexed: Path, tmp_path: Path):
    served = start("serve", indexed, "--port", 0)
    before = search(served.until(r"http://127\.0\.0\.1:\d+"))
    copy, other = tmp_path / "copy.sqlite", tmp_path / "other"
    assert run(start, "backup", indexed, copy).process.returncode == 0
    refused = run(start, "restore", copy, indexed, "--replace")
    assert (refused.process.returncode, "stop that first" in refused.said) == (2, True)
    assert run(start, "restore", copy, other).process.returncode == 0
    assert run(start, "restore", copy, other).process.returncode == 2
    with Server(None, other, engine_host="inline") as again:
        found = again.search(QUESTION).passages
    assert [(passage.document_id, passage.text) for passage in found] == before
