"""Files, vector stores and rankings, asked by other people's clients, unchanged."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.helpers.command import Command
from tests.helpers.server_state import eventually
from tests.helpers.tiny_server import index_documents
from tests.unit.corpus.parsing.pdfs import pdf

openai = pytest.importorskip("openai", reason="the client openai is not installed")

MILL = b"# The mill at Vik\n\nThe mill at Vik is kept by Solveig, who grinds rye on Mondays.\n"
FERRY = b"# The ferry\n\nThe ferry to Holm leaves at noon; its pilot is Torvald.\n"
CLEARED = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class Served(NamedTuple):
    """A server, its address, and a client of it."""

    command: Command
    url: str
    client: "openai.OpenAI"

    def kill(self) -> None:
        self.client.close()
        self.command.process.kill()
        self.command.end()


def serve(corpus: Path, *more: object) -> Served:
    command = Command(("serve", corpus, "--port", 0, "--allow-changes", *more))
    url = command.until(r"http://[\d.]+:\d+")
    command.until("Ctrl-C")
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    return Served(command, url, client)


@pytest.fixture(scope="module")
def served(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    running = serve(index_documents([documents], tmp_path_factory.mktemp("stores") / "corpus"))
    yield running
    running.kill()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)


def found(client: "openai.OpenAI", store_id: str, query: str, **more: object) -> list[str]:
    results = client.vector_stores.search(vector_store_id=store_id, query=query, **more)
    return [result.filename for result in results.data]


def test_a_file_is_sent_found_and_deleted(served: Served):
    client = served.client
    store = client.vector_stores.create(name="mills", metadata={"by": "test"})
    assert (store.status, store.file_counts.total) == ("completed", 0)
    assert found(client, store.id, "Who keeps the mill?") == []
    file = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("mill.md", MILL), attributes={"place": "Vik", "year": 1850}
    )
    assert (file.status, file.last_error) == ("completed", None)
    assert file.usage_bytes > 0
    again = client.vector_stores.retrieve(store.id)
    assert (again.name, again.metadata, again.file_counts.completed) == (
        "mills",
        {"by": "test"},
        1,
    )
    results = client.vector_stores.search(vector_store_id=store.id, query="Who keeps the mill?")
    best = results.data[0]
    assert (best.filename, best.file_id, best.attributes) == (
        "mill.md",
        file.id,
        {"place": "Vik", "year": 1850},
    )
    assert "Solveig" in best.content[0].text
    assert 0.3 < best.score <= 1
    assert client.files.content(file.id).read() == MILL
    read = client.vector_stores.files.content(file.id, vector_store_id=store.id)
    assert read.object == "vector_store.file_content.page"
    assert [(one.type, "Solveig" in one.text) for one in read] == [("text", True)]
    assert [one.id for one in client.vector_stores.files.list(store.id)] == [file.id]
    # It is a document of the corpus: a question to all of it, or to the store, finds it, too.
    ask = {"query": "Who keeps the mill?", "where": {"vector_store": store.id}, "topk": 1}
    passages = httpx.post(f"{served.url}/v1/search", json=ask, timeout=60).json()["passages"]
    assert [passage["place"]["file"] for passage in passages] == ["mill.md"]
    assert client.files.delete(file.id).deleted
    assert found(client, store.id, "Who keeps the mill?") == []
    reply = httpx.post(f"{served.url}/v1/search", json={**ask, "where": {}, "topk": 50}, timeout=60)
    assert "mill.md" not in reply.text
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)
    assert client.vector_stores.delete(store.id).deleted
    with pytest.raises(openai.NotFoundError, match="no vector store"):
        client.vector_stores.search(vector_store_id=store.id, query="mill")


def test_a_batch_says_how_far_it_is_and_filters_narrow_a_search(served: Served):
    client = served.client
    store = client.vector_stores.create(name="")
    batch = client.vector_stores.file_batches.upload_and_poll(
        vector_store_id=store.id,
        files=[("mill.md", MILL), ("ferry.txt", FERRY), ("bad.pdf", b"%PDF-1.7 and no more")],
    )
    assert (batch.status, batch.file_counts.completed, batch.file_counts.failed) == (
        "completed",
        2,
        1,
    )
    [failed] = client.vector_stores.files.list(store.id, filter="failed").data
    assert failed.last_error is not None
    assert failed.last_error.code == "invalid_file"
    assert failed.last_error.message.startswith("bad.pdf: ")
    with pytest.raises(openai.BadRequestError, match="is failed: only a completed file has its"):
        client.vector_stores.files.content(failed.id, vector_store_id=store.id)
    with pytest.raises(openai.NotFoundError, match="no file in this vector store"):
        client.vector_stores.files.content("file-none", vector_store_id=store.id)
    names = {
        one.id: client.files.retrieve(one.id).filename
        for one in client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id)
    }
    assert sorted(names.values()) == ["bad.pdf", "ferry.txt", "mill.md"]
    for file_id, name in names.items():
        client.vector_stores.files.update(
            file_id, vector_store_id=store.id, attributes={"length": len(name), "kind": name[-3:]}
        )
    eventually(lambda: client.vector_stores.retrieve(store.id).status == "completed")
    long = {"type": "gt", "key": "length", "value": 7}
    assert found(client, store.id, "Who keeps the mill?", filters=long) == ["ferry.txt"]
    either = {"type": "or", "filters": [long, {"type": "eq", "key": "kind", "value": ".md"}]}
    both = found(client, store.id, ["Who keeps the mill?"], filters=either, rewrite_query=True)
    assert both == ["mill.md", "ferry.txt"]
    assert len(found(client, store.id, "Vik", filters=either, max_num_results=1)) == 1
    for refused in ({"key": "colour", "type": "eq", "value": "red"}, {"type": "near"}):
        with pytest.raises(openai.BadRequestError, match="filters"):
            found(client, store.id, "mill", filters=refused)
    with pytest.raises(openai.BadRequestError, match="chunking_strategy"):
        client.vector_stores.files.create(
            store.id,
            file_id=next(iter(names)),
            chunking_strategy={
                "type": "static",
                "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400},
            },
        )
    client.vector_stores.files.delete(next(iter(names)), vector_store_id=store.id)
    assert client.vector_stores.retrieve(store.id).file_counts.total == 2


def test_bad_files_are_refused_by_name(served: Served):
    client = served.client

    def refusal(*file: object, status: int = 400, **more: object) -> str:
        with pytest.raises(openai.APIStatusError) as refused:
            client.files.create(file=file, purpose="assistants", **more)
        assert refused.value.status_code == status
        return refused.value.message

    assert "is of no type that is read" in refusal("run.exe", b"MZ")
    assert "'empty.txt' is empty" in refusal("empty.txt", b"")
    assert "is a path" in refusal("../../etc/passwd.txt", b"root")
    assert "larger than 33,554,432 bytes" in refusal("long.txt", b"a" * (32 << 20 | 1), status=413)
    assert "expires_after" in refusal(
        "a.txt", b"a", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    post = {"url": f"{served.url}/v1/files", "timeout": 60}
    assert httpx.post(**post, json={"file": "a"}).status_code == 415
    without = httpx.post(**post, files={"purpose": (None, "assistants")})
    assert (without.status_code, "no part `file`" in without.text) == (400, True)
    foreign = httpx.post(
        **post, files={"file": ("a.txt", b"a")}, headers={"Origin": "https://evil.example"}
    )
    assert foreign.status_code == 403
    with pytest.raises(openai.BadRequestError, match="file_ids: no file"):
        client.vector_stores.create(name="new", file_ids=["file-none"])
    assert "new" not in [store.name for store in client.vector_stores.list()]


def test_a_file_is_put_into_the_corpus_itself(served: Served):
    def put(name: str, content: bytes, **query: str) -> httpx.Response:
        url = f"{served.url}/v1/documents/file"
        return httpx.post(url, files={"file": (name, content)}, params=query, timeout=60)

    paper = pdf("The lock at Moss is kept by Ingrid.", "It opens at six.")
    done = put("locks.pdf", paper).json()
    assert (done["documents"], done["outcomes"]) == (1, {"added": 1})
    assert put("locks.pdf", paper).json()["outcomes"] == {"unchanged": 1}
    ask = {"query": "Who keeps the lock at Moss?", "topk": 1}
    [passage] = httpx.post(f"{served.url}/v1/search", json=ask, timeout=60).json()["passages"]
    assert (passage["document_id"], passage["place"]["page"]) == ("locks.pdf", 1)
    assert put("notes.md", b"# Rope\nMade of hemp.", tenant="ann").json()["documents"] == 1
    for name, content, words in (
        ("bad.pdf", b"%PDF-1.7 and no more", "bad.pdf: "),
        ("run.exe", b"MZ", "is of no type that is read"),
        ("../a.md", b"# A", "is a path"),
    ):
        refused = put(name, content)
        assert (refused.status_code, words in refused.text) == (400, True), refused.text
        assert "heddle-file-" not in refused.text


def test_a_server_that_is_killed_goes_on_where_it_stopped(
    documents: Path, tmp_path_factory: pytest.TempPathFactory
):
    corpus = index_documents([documents], tmp_path_factory.mktemp("killed") / "corpus")
    running = serve(corpus)
    client = running.client
    store = client.vector_stores.create(name="kept")
    client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("mill.md", MILL))
    long = "".join(f"# Part {part}\n\nThe lock {part} is kept by Ann.\n\n" for part in range(2000))
    file = client.vector_stores.files.upload(
        vector_store_id=store.id, file=("locks.md", long.encode())
    )
    assert file.status == "in_progress"
    running.kill()
    running = serve(corpus)
    try:
        client = running.client
        assert found(client, store.id, "Who keeps the mill?")[0] == "mill.md"
        kept = client.vector_stores.files.poll(file.id, vector_store_id=store.id)
        assert (kept.status, kept.last_error) == ("completed", None)
        assert "locks.md" in found(client, store.id, "Who keeps the lock 1999?")
    finally:
        running.kill()


def test_a_server_without_allow_changes_only_reads(corpus: Path, inline_server):
    from fastapi.testclient import TestClient

    from heddle.server.http import create_app

    with TestClient(create_app(inline_server, {}), base_url="http://127.0.0.1") as client:
        assert client.get("/v1/vector_stores").json()["data"] == []
        for method, path in (
            ("POST", "/v1/documents/file"),
            ("POST", "/v1/files"),
            ("DELETE", "/v1/files/file-1"),
            ("POST", "/v1/vector_stores"),
            ("POST", "/v1/vector_stores/vs_1/files"),
            ("POST", "/v1/vector_stores/vs_1/file_batches"),
        ):
            refused = client.request(method, path)
            assert refused.status_code == 403, path
            assert "--allow-changes" in refused.text


QUERY = "Who keeps the mill at Vik?"
TEXTS = ["The ferry leaves at noon.", "The mill at Vik is kept by Solveig.", "Rye is grown here."]


# In a process of its own: these clients leave sockets open and warn about their own code.
RANKING = """
import json, sys
import cohere, litellm

url, query, texts = json.loads(sys.argv[1])
new = cohere.ClientV2(api_key="none", base_url=url)
old = cohere.Client(api_key="none", base_url=url)
asked = {"query": query, "documents": texts}
ranked = new.rerank(model="any", top_n=2, **asked).results
others = old.rerank(model="any", return_documents=True, **asked).results
vllm = litellm.rerank(model="hosted_vllm/any", api_base=url, api_key="none", **asked).results
print(json.dumps({
    "new": [[one.index, one.relevance_score] for one in ranked],
    "old": [[one.index, one.document.text] for one in others],
    "litellm": [[one["index"], one["document"]["text"]] for one in vllm],
}))
"""


def test_cohere_and_litellm_rank_texts(served: Served):
    for client in ("cohere", "litellm"):
        if find_spec(client) is None:
            pytest.skip(f"the client {client} is not installed")
    asked = json.dumps([served.url, QUERY, TEXTS])
    done = subprocess.run(
        [sys.executable, "-c", RANKING, asked],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    [[best, high], [_, low]] = found["new"]
    assert best == 1
    assert 0 <= low < high <= 1
    assert found["old"][0] == found["litellm"][0] == [1, TEXTS[1]]
    assert len(found["old"]) == len(found["litellm"]) == 3


def test_rankings_are_refused_by_name(served: Served):
    def refusal(**body: object) -> str:
        asked = {"query": QUERY, "documents": TEXTS, **body}
        reply = httpx.post(f"{served.url}/v1/rerank", json=asked, timeout=60)
        assert reply.status_code == 400, reply.text
        return reply.json()["error"]["message"]

    assert refusal(documents=[]).startswith("documents: ")
    assert refusal(documents=["a"] * 1001).startswith("documents: ")
    assert "documents" in refusal(documents=[{"title": "a"}])
    assert refusal(max_tokens_per_doc=16).startswith("max_tokens_per_doc: ")
    assert "query" in refusal(query=" ")
    assert "top_n" in refusal(top_n=0)
    objects = {"query": QUERY, "documents": [{"text": one} for one in TEXTS], "user": "ann"}
    reply = httpx.post(f"{served.url}/v1/rerank", json=objects, timeout=60).json()
    assert reply["results"][0]["document"] == {"text": TEXTS[1]}
    assert reply["usage"]["total_tokens"] > 0
