"""A request's own documents: what is sent for them, what is found, and who sees it."""

import numpy as np
import pytest

from heddle.core.errors import WorkflowError
from heddle.core.passages import OWN_CHUNK_MIN, Passage
from heddle.core.payloads import EmbedPayload, PrefillPayload, SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.own_passages import OwnSource, nearest_own
from heddle.workflow.calls import Calls
from heddle.workflow.deferred import Deferred
from heddle.workflow.function import as_workflow
from heddle.workflow.ragraph import START, RAGraph
from tests.helpers.fake_ports import Bench


def own(*texts: str) -> tuple[Passage, ...]:
    return tuple(
        Passage(OWN_CHUNK_MIN + row, f"documents[{row}]", f"t{row}", text)
        for row, text in enumerate(texts)
    )


def searching(**options: object) -> RAGraph:
    graph = RAGraph("own").add_documents("index")
    return graph.add_retrieval("find", within="indexed", **options)


def test_all_vectors_are_compared_and_ties_go_by_position():
    vectors = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], np.float32)
    hits = nearest_own(np.array([[1.0, 0.0]], np.float32), vectors, 2)
    assert hits.labels.tolist() == [[OWN_CHUNK_MIN + 1, OWN_CHUNK_MIN + 2]]
    assert hits.distances.tolist() == [[0.0, 0.0]]
    assert nearest_own(vectors, vectors, 9).labels.shape == (3, 3)


def test_ids_become_the_passages_of_their_rows():
    source = OwnSource(own("a", "b"))
    assert [p.text for p in source.passages([OWN_CHUNK_MIN + 1, OWN_CHUNK_MIN])] == ["b", "a"]
    assert source.count_damaged([OWN_CHUNK_MIN], "") == 0


def test_the_corpus_is_not_searched_and_vectors_are_not_kept():
    bench = Bench()
    inputs = {"query": "why", "documents": own("a tide", "a mill")}
    call = bench.submit(searching(topk=1).compile(), inputs)
    assert [p.is_own for p in call.answer.passages] == [True]
    assert not any(isinstance(t.payload, SearchPayload) for t in bench.vector.tasks())
    sent = [t.payload for t in bench.embedding.tasks()]
    assert {(p.texts, p.may_keep) for p in sent if isinstance(p, EmbedPayload)} == {
        (("t0\na tide", "t1\na mill"), False),
        (("why",), True),
    }
    bench.assert_idle()


def test_a_way_past_the_indexing_is_named():
    graph = RAGraph("past").add_generation("judge", "Is {query} easy?", "verdict")
    graph.add_documents("index").add_retrieval("find", within="indexed")
    graph.add_edge(START, "judge").add_edge("index", "find")
    graph.add_edge("judge", lambda state: "find", ["index", "find"])
    bench = Bench()
    error = bench.submit(graph.compile(), {"query": "why", "documents": own("a tide")}).error
    assert isinstance(error, WorkflowError)
    assert "node 'find'" in str(error)
    assert "'indexed'" in str(error)
    bench.assert_idle()


def test_a_list_of_queries_is_ranked_by_the_question():
    bench = Bench()
    graph = RAGraph("ranked").add_documents("index")
    graph.add_generation("expand", "{query}", output="wordings", parse="lines")
    graph.add_retrieval(
        "find", "{wordings}", topk=2, collect=True, within="indexed", rerank=1, rerank_by="query"
    )
    bench.llm.texts["expand"] = ["one\ntwo"]
    inputs = {"query": "why", "documents": own("a", "bb", "ccc")}
    call = bench.submit(graph.compile(), inputs)
    (ranking,) = bench.reading.tasks()
    assert ranking.payload.question == "why"
    assert len(call.answer.passages) == 1
    bench.assert_idle()


def test_prompts_share_their_kv_only_where_their_salts_are_equal():
    bench = Bench()
    graph = searching(topk=1).add_generation("answer", "{docs}{query}").compile()
    inputs = {"query": "why", "documents": own("a")}
    bench.submit(graph, inputs, tenant="ann", cache_salt="ann\0one")
    bench.submit(RAGraph("plain").add_generation("answer", "{query}").compile(), tenant="ann")
    prompts = [t.payload for t in bench.llm.tasks() if isinstance(t.payload, PrefillPayload)]
    assert [p.cache_salt for p in prompts] == ["ann\0one", "ann"]


@pytest.mark.parametrize("end", ["cancel", "fail", "answer"])
def test_no_end_of_a_request_leaves_anything_of_it(end: str):
    bench = Bench()
    bench.tools.holds = lambda task: task.kind is PrimitiveKind.MATCHING
    call = bench.submit(searching(topk=1).compile(), {"query": "why", "documents": own("a")})
    (task,) = bench.tools.open
    if end == "cancel":
        bench.cancel(call)
    elif end == "fail":
        bench.tools.fail(task)
    else:
        bench.tools.answer(task)
    bench.cycle()
    assert len(call.ends) == 1
    bench.assert_idle()


def test_a_search_within_needs_the_slot_of_documents():
    graph = RAGraph("bad").add_generation("write", "{query}", output="indexed")
    graph.add_retrieval("find", within="indexed")
    with pytest.raises(WorkflowError, match="within='indexed' must be the output of an add_docum"):
        graph.compile()
    with pytest.raises(WorkflowError, match="by meaning alone: leave hybrid"):
        searching(hybrid=True)


def test_a_search_within_an_input_is_refused():
    graph = RAGraph("bad", inputs=("found",)).add_documents("index")
    graph.add_retrieval("find", within="found")
    with pytest.raises(WorkflowError, match="within='found' must be the output of an add_docum"):
        graph.compile()


def test_a_function_that_searches_within_what_it_has_not_indexed_ends_with_an_error():
    @as_workflow
    async def unindexed(rag: Calls, query: Deferred, documents: Deferred) -> Deferred:
        return await rag.retrieve(query, within=documents)

    bench = Bench()
    error = bench.submit(unindexed.compile(), {"query": "why", "documents": own("a")}).error
    assert isinstance(error, WorkflowError)
    assert "within='documents' must be the output of an add_documents node" in str(error)
    assert "in a function what rag.index gave" in str(error)
    bench.assert_idle()


def test_a_function_searches_in_the_documents_of_its_request():
    @as_workflow
    async def own_docs(rag: Calls, query: Deferred, documents: Deferred) -> Deferred:
        indexed = await rag.index(documents)
        docs = await rag.retrieve(query, within=indexed, topk=1)
        if not docs:
            return query
        docs = await rag.retrieve(f"{query} again", within=indexed, topk=2)
        return await rag.generate(f"{docs}{query}", name="answer")

    bench = Bench()
    inputs = {"query": "why", "documents": own("a", "b")}
    call = bench.submit(own_docs.compile(), inputs)
    assert [p.is_own for p in call.answer.passages] == [True, True]
    assert len([t for t in bench.embedding.tasks() if not t.payload.may_keep]) == 1
    bench.assert_idle()

    @as_workflow
    async def wrong(rag: Calls, query: Deferred) -> Deferred:
        return await rag.index(query)

    with pytest.raises(WorkflowError, match="the function's parameter 'documents'"):
        raise bench.submit(wrong.compile()).error


@pytest.mark.parametrize("writer", ["tool", "model"])
def test_a_list_of_queries_is_matched_once_it_is_whole(writer: str):
    bench = Bench()
    graph = RAGraph("listed").add_documents("index")
    if writer == "tool":
        graph.add_tool("list", lambda query: ("a", "bb"), ["query"], "queries")
    else:
        graph.add_generation("list", "{query}", "queries", parse="lines")
        bench.llm.texts["list"] = ["a\nbb"]
    graph.add_retrieval("find", "{queries}", topk=1, collect=True, within="indexed")
    graph.add_generation("answer", "{docs}{query}")
    call = bench.submit(graph.compile(), {"query": "why", "documents": own("a", "bb", "ccc")})
    assert call.answer.passages
    assert all(p.is_own for p in call.answer.passages)
    matchings = [t for t in bench.tools.tasks() if t.kind is PrimitiveKind.MATCHING]
    assert [len(t.payload.arguments[0]) for t in matchings] == [2]
    bench.assert_idle()
