"""A workflow by its name on the command line."""

import json
import sys
from pathlib import Path

import pytest

from heddle.cli.workflow_source import (
    check_connectors,
    drawn_workflow,
    load_connectors,
    load_workflow,
)
from heddle.core.errors import ConfigError, HeddleError, InputError, WorkflowError
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.ready_made import READY_MADE
from heddle.workflow.workflow import Workflow

MINE = """
from heddle import RAGraph
from topic import TOPIC
flow = RAGraph('mine').add_retrieval('find', topk=3).add_retrieval('more', output='others')
flow.add_generation('answer', TOPIC + ' {docs} {others}', output='answer')
def search(words):
    return [words]
plain = RAGraph('plain').add_generation('say', 'Say {query}.')
frozen = plain.compile()
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "topic.py").write_text("TOPIC = 'Tides:'\n")
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return str(file)


def topks(workflow: Workflow) -> dict[object, int]:
    nodes = workflow.nodes.items()
    return {key: node.topk for key, node in nodes if isinstance(node, RetrievalNode)}


def test_a_graph_of_a_file_that_imports_what_lies_beside_it(mine: str):
    assert load_workflow(f"{mine}:flow").name == "mine"
    assert load_workflow(f"{mine}:frozen").name == "plain"


@pytest.mark.parametrize("name", [name for name in READY_MADE if name != "search_engine"])
def test_topk_is_that_of_every_search(name: str):
    plain, changed = load_workflow(name), load_workflow(name, 9)
    assert topks(changed) == dict.fromkeys(topks(plain), 9)
    assert changed.edges == plain.edges
    searches = [n for n in changed.nodes.values() if isinstance(n, RetrievalNode)]
    assert not any(node.allow_fewer for node in searches)
    assert set(changed.nodes) == set(plain.nodes)


def test_topk_of_ones_own_workflow(mine: str):
    assert topks(load_workflow(f"{mine}:flow")) == {"find": 3, "more": 5}
    assert topks(load_workflow(f"{mine}:flow", 2)) == {"find": 2, "more": 2}


@pytest.mark.parametrize(
    ("name", "topk", "error", "words"),
    [
        ("oneshot", 0, InputError, "topk must be an integer from 1 to 1000, got 0"),
        ("oneshot", 1001, InputError, "topk must be an integer from 1 to 1000, got 1001"),
        ("{mine}:plain", 3, InputError, "topk: workflow 'plain' retrieves nothing: leave it out"),
        ("{mine}:nope", None, WorkflowError, "there are flow, plain, frozen"),
        ("{mine}", None, WorkflowError, "and FILE.py:NAME for a RAGraph of yours"),
        ("nope", None, WorkflowError, "'nope' is unknown; there are quote, oneshot"),
    ],
)
def test_refusals(name: str, topk: int | None, error: type[HeddleError], words: str, mine: str):
    with pytest.raises(error) as refused:
        load_workflow(name.replace("{mine}", mine), topk)
    assert words in str(refused.value)


def test_a_file_without_graphs(tmp_path: Path):
    (tmp_path / "none.py").write_text("x = 1")
    with pytest.raises(WorkflowError, match=r"'x' is no RAGraph and no workflow .*; there is none"):
        load_workflow(f"{tmp_path / 'none.py'}:x")


ANNOTATED = """
from __future__ import annotations
from dataclasses import dataclass
from heddle import RAGraph
@dataclass
class Settings:
    topk: int = 2
flow = RAGraph('annotated').add_retrieval('find', topk=Settings().topk)
"""


@pytest.mark.parametrize("name", ["annotated.py", "json.py"])  # json is a module of Python's
def test_a_file_may_hold_a_dataclass_whose_annotations_are_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / name).write_text(ANNOTATED)
    assert topks(load_workflow(f"{tmp_path / name}:flow")) == {"find": 2}
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\n\ny = x + z", r", line 3: NameError: name 'z' is not defined"),
        ("import sys\nsys.exit('no config')", r", line 2: SystemExit: no config"),
        ("import topic_of_bad\n", r", line 1: KeyError: 'gone'"),
        ("x = (", r": SyntaxError: .*line 1"),
    ],
)
def test_a_file_that_raises_is_an_error_with_its_line(tmp_path: Path, code: str, words: str):
    (tmp_path / "topic_of_bad.py").write_text("\n\nx = {}['gone']\n")
    (tmp_path / "bad.py").write_text(code)
    before = set(sys.modules)
    with pytest.raises(WorkflowError, match=rf"bad\.py:flow'{words}"):
        load_workflow(f"{tmp_path / 'bad.py'}:flow")
    assert not any("bad" in name for name in set(sys.modules) - before)


def test_connectors_are_functions_of_files(mine: str):
    connectors = load_connectors([f"web_search={mine}:search"])
    assert connectors["web_search"]("tides") == ["tides"]
    assert load_workflow("search_engine", connectors=connectors).name == "search_engine"
    for source, words in (
        ("web_search", "write NAME=FILE.py:FUNCTION"),
        ("=mine.py:search", "write NAME=FILE.py:FUNCTION"),
        (f"web_search={mine}:none", "'none' is no function in"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_connectors([source])
    with pytest.raises(InputError, match="there is no file"):
        load_connectors(["web_search=gone.py:search"])


def test_a_workflow_can_be_looked_at_without_its_connector():
    assert drawn_workflow("search_engine", None, {}).name == "search_engine"
    assert "web_search" not in str(drawn_workflow("agent", None, {}).nodes["plan"])
    with pytest.raises(ConfigError, match=r"--connector web_search=FILE\.py:FUNCTION"):
        check_connectors("search_engine", {})
    check_connectors("agent", {})
    given = {"lookup": str.upper}
    for name in ("search_engine", "oneshot", "mine.py:flow"):
        with pytest.raises(ConfigError, match=f"--connector lookup: workflow '{name}' never calls"):
            drawn_workflow(name, None, given)
    assert drawn_workflow("agent", None, given).name == "agent"
    check_connectors("mine.py:flow", {})
