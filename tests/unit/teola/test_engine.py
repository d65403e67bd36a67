"""Registered engines become settings of one server; what can't be one is refused by name."""

import logging

import pytest

from heddle.core.errors import ConfigError
from heddle.teola.engine import REGISTERED, Engine, server_settings, tools_of


@pytest.fixture(autouse=True)
def registry():
    REGISTERED.clear()
    yield REGISTERED
    REGISTERED.clear()


def test_they_become_the_settings_of_a_server(registry):
    Engine("LLM", "reader", {"dtype": "float32"}, {}, 2)
    Engine("Searching", "corpus", instances=2)
    Engine("Judge", str.upper, instances=3)
    ranker = object()
    Engine("Reranking", ranker)
    assert server_settings(registry) == {
        "generator": "reader",
        "dtype": "float32",
        "replicas": "llm=2,retrieval=2",
        "index": "corpus",
        "tool_threads": 3,
        "engines": [ranker],
    }
    assert tools_of(registry) == {"Judge": str.upper}


def test_a_tool_s_own_number_of_threads_counts(registry):
    Engine("Judge", str.upper, {"tool_threads": 8})
    assert server_settings(registry)["tool_threads"] == 8


def test_what_two_engines_share_is_named_once(registry):
    for name in ("LLM", "Embedding", "Searching"):
        Engine(name, name.lower(), instances=2)
    assert server_settings(registry)["replicas"] == "llm=2,retrieval=2"


def test_the_newest_of_a_name_counts(registry):
    Engine("LLM", "one")
    newest = Engine("LLM", "two")
    assert registry == {"LLM": newest}
    assert server_settings({}) == {"generator": None}


def test_what_the_machine_lacks_is_logged(registry, caplog):
    Engine("LLM", "reader", resource={"CPU": 10**6})
    with caplog.at_level(logging.WARNING):
        server_settings(registry)
    assert "asks for 1000000 CPU and this machine has" in caplog.text


def test_two_that_disagree_are_refused(registry):
    Engine("LLM", "reader", {"shards": 2})
    Engine("Searching", "corpus", {"shards": 3})
    with pytest.raises(ConfigError, match="engines 'LLM' and 'Searching' both set shards"):
        server_settings(registry)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"name": "my llm", "executable": "reader"}, "name must be a plain name"),
        ({"name": "Judge", "executable": "reader"}, "executable of a tool must be a function"),
        ({"name": "LLM", "executable": "r", "config": ["dtype"]}, "config must be a mapping"),
        ({"name": "LLM", "executable": "r", "resource": {"TPU": 1}}, "must count GPU and CPU"),
        ({"name": "LLM", "executable": "r", "resource": {"GPU": -1}}, "must count GPU and CPU"),
        ({"name": "LLM", "executable": "r", "instances": 0}, "instances must be at least 1"),
        ({"name": "Reranking", "executable": "r", "instances": 2}, "instances must be 1: only"),
        ({"name": "LLM", "executable": object(), "instances": 2}, "instances must be 1: only"),
    ],
)
def test_what_can_t_be_one_is_refused(how, words):
    with pytest.raises(ConfigError, match=words):
        Engine(**how)
