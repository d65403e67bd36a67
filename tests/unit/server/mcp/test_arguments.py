"""What is wrong with a call is said in one sentence, so that an assistant can mend it."""

import pytest

from heddle.core.errors import InputError
from heddle.server.mcp.arguments import AskArguments, ListArguments, SearchArguments


def test_what_is_left_out_has_a_default() -> None:
    assert SearchArguments.of({"query": "keeper"}).topk == 5
    assert AskArguments.of({"question": "who?"}).topk is None
    assert ListArguments.of(None).limit == 100


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "query is missing"),
        ({"query": ""}, "query: is empty, got ''"),
        ({"query": "a", "topk": 51}, "topk: must be at most 50, got 51"),
        ({"query": "a", "how": "magic"}, "how: must be 'meaning', 'words' or 'both'"),
        ({"query": "a", "top_k": 3}, "top_k is no argument of this tool"),
        ({"query": 3, "where": []}, "query: .*; where: "),
    ],
)
def test_each_problem_is_named(given: dict | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        SearchArguments.of(given)


def test_clients_see_names_types_and_meanings() -> None:
    schema = SearchArguments.schema_for_clients()
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert all(field["description"] for field in schema["properties"].values())
    assert "title" not in schema
