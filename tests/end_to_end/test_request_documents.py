"""Documents that come with a request: found by it alone, and gone when it has ended."""

from dataclasses import replace
from pathlib import Path

import pytest

from heddle import RAGraph, Server
from heddle.core.errors import Cancelled, ConfigError, InputError
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.ready_made import ready_made
from heddle.workflow.workflow import Workflow
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.server_state import eventually, holds_nothing

QUESTION = "Who keeps the mill at Vik?"
MILL = {"title": "The mill at Vik", "text": "The mill at Vik is kept by Solveig.\n"}
BARN = "The barn at Nes was painted green in 1911."
NAMES = ("doc_qa_naive", "doc_qa_advanced")


def brief(graph: RAGraph) -> Workflow:
    """Return a workflow whose texts are short: the model never ends one by itself."""
    workflow = graph.compile()
    nodes = {
        key: replace(node, sampling=replace(node.sampling, max_tokens=6))
        if isinstance(node, GenerationNode)
        else node
        for key, node in workflow.nodes.items()
    }
    return replace(workflow, nodes=nodes)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_came_with_the_request_is_found(inline_server: Server, name: str):
    answer = inline_server.app(brief(ready_made(name))).invoke(QUESTION, documents=[BARN, MILL])
    assert answer.text
    titles = {passage.title for passage in answer.passages}
    assert titles == {"The mill at Vik", "document 1"}
    assert answer.passages[0].title == "The mill at Vik"
    assert all(passage.is_own for passage in answer.passages)
    assert answer.receipt.lists_scanned == 0


@pytest.mark.parametrize("name", NAMES)
def test_speed_changes_no_answer(inline_server: Server, name: str):
    app = inline_server.app(brief(ready_made(name)))
    plain = app.invoke(QUESTION, documents=[BARN, MILL], optimizations="off")
    fast = app.invoke(QUESTION, documents=[BARN, MILL], optimizations="exact")
    assert fast.text == plain.text
    assert fast.passages == plain.passages


def test_a_tree_asks_once_for_each_passage_and_merges(inline_server: Server):
    app = inline_server.app(brief(ready_made("doc_qa_naive")))
    merged = app.invoke(QUESTION, documents=[BARN, MILL])
    kinds = [s.node for s in merged.receipt.spans if s.kind.value == "decoding"]
    assert sorted(kinds) == ["answer", "part_1", "part_2"]
    alone = app.invoke(QUESTION, documents=[MILL])
    kinds = [s.node for s in alone.receipt.spans if s.kind.value == "decoding"]
    assert kinds == ["part_1"]
    assert alone.text == alone.slots["part_1"]


def test_nothing_of_it_is_left_for_others(inline_server: Server):
    app = inline_server.app(brief(ready_made("doc_qa_naive")))
    first = app.invoke(QUESTION, documents=[MILL])
    again = app.invoke(QUESTION, documents=[MILL])
    # The same prompt twice: its KV was computed twice, as no other request may read the first.
    assert first.receipt.prompt_tokens_reused == again.receipt.prompt_tokens_reused == 0
    found = inline_server.search(QUESTION, topk=20).passages
    assert not any("Vik" in passage.title for passage in found)
    eventually(lambda: holds_nothing(inline_server))


def test_nothing_is_left_where_it_is_taken_back(inline_server: Server):
    handle = inline_server.submit("doc_qa_naive", QUESTION, documents=[MILL] * 9)
    handle.cancel_soon()
    with pytest.raises(Cancelled):
        handle.result(timeout_s=60)
    eventually(lambda: holds_nothing(inline_server))


def test_what_cannot_be_used_is_refused_by_its_field(inline_server: Server):
    def ask(name: str = "doc_qa_naive", **how: object) -> None:
        inline_server.submit(name, QUESTION, **how)

    for documents in (None, []):
        with pytest.raises(InputError, match="documents: workflow 'doc_qa_naive' answers from"):
            ask(documents=documents)
    with pytest.raises(InputError, match=r"documents\[1\]: text is empty"):
        ask(documents=["a text", " \n"])
    with pytest.raises(InputError, match="documents: workflow 'oneshot' reads the corpus"):
        ask("oneshot", documents=[MILL])
    with pytest.raises(InputError, match="where: workflow 'doc_qa_naive' retrieves nothing"):
        ask(documents=[MILL], where={"lang": "en"})
    with pytest.raises(InputError, match="hybrid: workflow 'doc_qa_naive' searches the request's"):
        ask(documents=[MILL], hybrid=True)
    with pytest.raises(InputError, match="documents are no input"):
        inline_server.submit("doc_qa_naive", {"query": "a", "documents": [MILL]})


def test_a_server_without_a_corpus_says_what_is_missing(model: Path):
    with (
        Server(model, engine_host="inline", dtype="float32", kv_cache_bytes=KV_BYTES) as server,
        pytest.raises(ConfigError, match="no corpus: give it an index"),
    ):
        server.submit("doc_qa_naive", QUESTION, documents=[MILL])
