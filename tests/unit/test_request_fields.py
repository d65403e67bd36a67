"""Every option of a request can be given in Python and over HTTP, and on the command line."""

import pytest

import heddle
from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of
from heddle.cli.main import command_parser
from heddle.server.ask_request import AskRequest

# The form of a text is an object, which no flag holds.
WITHOUT_FLAG = {"constraint"}
PYTHON = {"workflow", "inputs", *heddle.RequestOptions.__annotations__}


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_a_field_of_a_request_is_reachable_everywhere(name: str):
    assert name in AskRequest.model_fields
    if name in WITHOUT_FLAG:
        return
    flags = command_parser("ask").flags
    flag = {"inputs": "--input", "documents": "--document"}.get(name, f"--{name.replace('_', '-')}")
    assert flag in flags


def test_http_has_three_fields_more():
    assert set(AskRequest.model_fields) - PYTHON == {"question", "stream", "timeline"}


def test_what_is_a_setting_as_well_is_set_by_one_flag():
    """`heddle ask` starts a server for one request: its setting is the request's."""
    both = set(heddle.RequestOptions.__annotations__) & set(fields_of(ServerConfig))
    assert both == {
        "answer_cache",
        "deadline_s",
        "optimizations",
        "kv_reuse",
        "max_tokens",
        "temperature",
        "system",
    }
    assert fields_of(ServerConfig)["prompt_file"].flag == "--prompt"


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ({"question": "Who?"}, "Who?"),
        ({"inputs": {"topic": "tides"}}, {"topic": "tides"}),
        ({"question": "Who?", "inputs": {"topic": "x"}}, {"topic": "x", "query": "Who?"}),
    ],
)
def test_inputs_over_http(body: dict, values: object):
    assert AskRequest(**body).values == values
