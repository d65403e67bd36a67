"""Searches by themselves: in Python, over HTTP and from the command line."""

import json
from pathlib import Path

import pytest

from heddle import ConfigError, InputError, SearchResult, Server
from heddle.cli.main import main

QUERY = "Who keeps the lighthouse on Rock 3?"


def test_the_nearest_passages_with_a_receipt(server: Server):
    found = server.search(QUERY, topk=3)
    assert isinstance(found, SearchResult)
    assert found.passages[0].title == "The lighthouse of Rock 3"
    distances = [passage.distance for passage in found.passages]
    assert distances == sorted(distances)
    assert len(distances) == 3
    assert found.receipt.generated_tokens == 0


def test_more_than_there_are_is_all_of_them(server: Server):
    assert len(server.search(QUERY, topk=1000).passages) == 10
    assert server.search(QUERY, topk=1, hybrid=True).passages[0].title.endswith("Rock 3")
    with pytest.raises(InputError, match="no passage has lang=en"):
        server.search(QUERY, where={"lang": "en"})


def test_what_can_not_be_searched_for(server: Server):
    with pytest.raises(InputError, match="topk must be an integer"):
        server.search(QUERY, topk=0)
    with pytest.raises(InputError, match="did you mean 'tenant'"):
        server.search(QUERY, tenat="x")


def test_a_server_without_a_model_that_ranks_says_so(corpus: Path):
    with Server(None, corpus, engine_host="inline") as server:
        assert server.search(QUERY, topk=1).passages
        with pytest.raises(ConfigError, match="name a model that ranks"):
            server.search(QUERY, rerank=True)


@pytest.mark.parametrize("more", [[], ["--hybrid"], ["--words"]])
def test_from_the_command_line(
    more: list[str], corpus: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEDDLE_ENGINE_HOST", "inline")
    assert main(["search", str(corpus), "keeper Clara", "--topk", "1", "--json", *more]) == 0
    [passage] = json.loads(capsys.readouterr().out)["passages"]
    assert passage["title"] == "The lighthouse of Rock 3"
