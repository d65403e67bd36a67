"""Requests: what is checked before the runtime's thread sees them, and how they are taken back."""

from pathlib import Path

import pytest

from heddle.app.application import App
from heddle.app.server_config import ServerConfig
from heddle.app.submission import Submission, compiled_workflow
from heddle.core.errors import ConfigError, InputError, WorkflowError
from heddle.core.kv_reuse import ReusePolicy, kv_reuse_of
from heddle.core.tasks import Optimizations, Priority
from heddle.corpus.chunking import Chunking
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.ready_made import ready_made
from heddle.workflow.searches import ChangedWorkflows

SEARCH = RAGraph("search").add_retrieval("find")


def checked(config: ServerConfig | None = None, workflow: object = SEARCH, **how) -> Submission:
    config = config or ServerConfig(generator=None, index=Path("corpus"))
    compiled = compiled_workflow(workflow)
    return Submission.of(config, ChangedWorkflows(), compiled, "why", how, Chunking)


def test_texts_become_what_they_name():
    found = checked(priority="bulk", optimizations="off", deadline_s=3, where={"lang": "en"})
    assert found.inputs == {"query": "why"}
    asked = found.options
    assert (asked.priority, asked.optimizations) == (Priority.BULK, Optimizations.OFF)
    assert asked.deadline_s == 3.0
    assert asked.where


def test_what_is_left_out_is_as_the_server_has_it():
    found = checked().options
    assert (found.optimizations, found.deadline_s) == (Optimizations.EXACT, None)
    assert not found.where


def test_a_request_gets_no_more_than_the_server_allows():
    with pytest.raises(ConfigError, match=r"'approx' is more than this server allows \('exact'\)"):
        checked(optimizations="approx")
    config = ServerConfig(index="corpus", optimizations=Optimizations.APPROX)
    assert (
        checked(config, kv_reuse="fusionrag,0.15").options.kv_reuse.policy is ReusePolicy.FUSIONRAG
    )
    with pytest.raises(ConfigError, match="kv_reuse 'fusionrag' gives approximate answers"):
        checked(config, kv_reuse="fusionrag,0.15", optimizations="exact")


def test_metadata_is_for_workflows_that_retrieve():
    write = RAGraph("write").add_generation("answer", "{query}")
    with pytest.raises(InputError, match="where: workflow 'write' retrieves nothing"):
        checked(ServerConfig(), write, where={"lang": "en"})


def test_a_workflow_by_its_name_its_graph_or_its_app():
    compiled = SEARCH.compile()
    assert compiled_workflow(compiled) is compiled
    assert compiled_workflow(App(None, compiled)) is compiled
    assert compiled_workflow(SEARCH).name == "search"
    assert compiled_workflow("oneshot") is compiled_workflow("oneshot"), "compiled once"
    with pytest.raises(WorkflowError, match="nope"):
        compiled_workflow("nope")


def test_searches_are_changed_for_one_request():
    asked = checked(topk=7, hybrid=True).workflow.nodes["find"]
    assert (asked.topk, asked.hybrid) == (7, True)
    assert checked().workflow.nodes["find"].topk != 7


def test_documents_of_a_request_have_no_stored_kv():
    config = ServerConfig(
        index="corpus", optimizations=Optimizations.APPROX, kv_reuse=kv_reuse_of("epic")
    )
    workflow = ready_made("doc_qa_naive")
    found = checked(config, workflow, documents=["They turn."])
    assert not found.options.kv_reuse.is_approximate
    assert [chunk.text for chunk in found.inputs["documents"]] == ["They turn."]
    with pytest.raises(InputError, match="kv_reuse: the KV of documents that come with a request"):
        checked(config, workflow, documents=["They turn."], kv_reuse="fusionrag,0.15")
