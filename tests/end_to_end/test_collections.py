"""Tenants, metadata and words, from a JSONL file to the passages of an answer."""

import json
from collections.abc import Iterator

import pytest

from heddle import InputError, RAGraph, Server
from heddle.corpus.records import PutOutcome
from tests.helpers.tiny_server import index_documents

LINES = [
    {"id": "dock", "text": "The dry dock takes ships of 90 metres.", "metadata": {"area": "south"}},
    {
        "id": "pier",
        "text": "Ferries leave the pier at noon.",
        "metadata": {"area": ["north", "sea"]},
    },
    {"id": "code", "text": "Error QX-4471 means that the sluice is jammed."},
    {
        "id": "lamp",
        "text": "The lamps of the quay burn gas.",
        "metadata": {"area": "south", "year": 1899},
    },
    {"id": "lamp", "text": "The lamps of the quay are Ann's to clean.", "tenant": "ann"},
    {
        "id": "safe",
        "text": "Bob keeps the harbour's money.",
        "tenant": "bob",
        "metadata": {"area": "south"},
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("collections")
    file = folder / "harbour.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in LINES))
    with Server(None, index_documents([file], folder / "corpus"), engine_host="inline") as server:
        yield server


def found(server: Server, question: str = "harbour", tenant: str = "", request=None, **node) -> set:
    search = server.app(RAGraph("search").add_retrieval("find", **node))
    passages = search.invoke(question, tenant=tenant, where=request).passages
    return {(passage.document_id, passage.tenant) for passage in passages}


def everybodys(*names: str) -> set[tuple[str, str]]:
    return {(name, "") for name in names}


def test_metadata_narrows_a_search(server: Server):
    assert found(server) == everybodys("dock", "pier", "code", "lamp")
    assert found(server, where={"area": "south"}) == everybodys("dock", "lamp")
    assert found(server, where={"area": ["sea", "south"]}) == everybodys("dock", "lamp", "pier")
    assert found(server, where={"area": "south", "year": 1899}) == everybodys("lamp")
    assert found(server, request={"year": "1899"}) == everybodys("lamp")
    assert found(server, request={"area": "south"}, where={"year": 1899}) == everybodys("lamp")


def test_a_tenant_sees_its_own_and_everybodys(server: Server):
    all_of_nobody = everybodys("dock", "pier", "code", "lamp")
    assert found(server, tenant="ann") == {*all_of_nobody, ("lamp", "ann")}
    assert found(server, tenant="zoe") == all_of_nobody
    assert found(server, tenant="bob", where={"area": "south"}, topk=6) == {
        *everybodys("dock", "lamp"),
        ("safe", "bob"),
    }


def test_what_nothing_matches_is_refused(server: Server):
    with pytest.raises(InputError, match="where: no passage has area=west"):
        found(server, where={"area": "west"})
    with pytest.raises(InputError, match="where: no passage has area="):
        found(server, where={"area": "south"}, request={"area": "north"})
    with pytest.raises(InputError, match="where must be a mapping"):
        found(server, request="area=south")
    with pytest.raises(InputError, match="retrieves nothing"):
        server.submit(RAGraph("t").add_tool("t", len, ["query"], "n"), "x", where={"area": "south"})


def test_single_documents_come_and_go_while_the_server_runs(server: Server):
    text = "The ice breaker winters in the harbour."
    added = server.upsert("ice", text, tenant="ivar", metadata={"area": "sea"})
    assert (added.outcome, added.embedded.chunks) == (PutOutcome.ADDED, 1)
    sea = {"area": "sea"}
    assert found(server, tenant="ivar", where=sea) == {*everybodys("pier"), ("ice", "ivar")}
    assert found(server, where=sea) == everybodys("pier")
    assert server.upsert("ice", text, tenant="ivar", metadata={"area": "ice"}).embedded.chunks == 0
    assert found(server, tenant="ivar", where={"area": "ice"}) == {("ice", "ivar")}
    changed = server.upsert("ice", "The breaker is in Kemi.", tenant="ivar")
    assert changed.outcome is PutOutcome.CHANGED
    answer = server.app(RAGraph("s").add_retrieval("find", topk=9, allow_fewer=True)).invoke(
        "Kemi?", tenant="ivar"
    )
    assert "The breaker is in Kemi." in [passage.text for passage in answer.passages]
    assert text not in [passage.text for passage in answer.passages]
    assert not server.delete("ice")
    assert server.delete("ice", tenant="ivar")
    assert ("ice", "ivar") not in found(server, "Kemi?", tenant="ivar", topk=9, allow_fewer=True)
    assert not server.delete("ice", tenant="ivar")


def test_words_find_what_meaning_does_not(server: Server):
    question = "QX-4471"
    search = RAGraph("search").add_retrieval("find", topk=1, hybrid=True)
    answer = server.app(search).invoke(question)
    assert [passage.document_id for passage in answer.passages] == ["code"]
    assert answer.passages[0].distance > 0
    assert answer.receipt.degradations == ()
    south = found(server, question, hybrid=True, where={"area": "south"})
    assert south == everybodys("dock", "lamp")
