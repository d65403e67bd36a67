"""The documented calls of real clients, unchanged, to Heddle's API. (benchmarks/clients.py)"""

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.client_calls.all_clients import ALL_CLIENTS
from benchmarks.client_calls.call import Client, Servers
from benchmarks.client_calls.serving import served
from heddle import Server
from tests.helpers.server_state import eventually, holds_nothing

# Clients that leave a connection for the garbage collector to close.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
CALLS = [(client, name) for client in ALL_CLIENTS for name in client.calls]


@pytest.fixture(scope="module")
def servers(inline_server: Server, corpus: Path) -> Iterator[Servers]:
    with served(inline_server, corpus) as found:
        yield found


def needed(client: Client) -> None:
    """Skip where a client isn't installed; in CI that is an error (tests/helpers/needed_tools)."""
    if importlib.util.find_spec(client.module.partition(".")[0]) is None:
        pytest.skip(f"the client {client.name} is not installed: make setup-all")


@pytest.mark.parametrize(
    ("client", "name"), CALLS, ids=[f"{client.name}-{name}" for client, name in CALLS]
)
def test_a_call_is_answered_as_documented(client: Client, name: str, servers: Servers):
    needed(client)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the clients' own, of what they import
        client.calls[name](servers)


def test_a_client_that_leaves_a_stream_cancels_its_request(servers: Servers, inline_server: Server):
    openai = pytest.importorskip("openai", reason="the client openai is not installed")
    client = openai.OpenAI(base_url=servers.writing, api_key="any")
    asked = {"messages": [{"role": "user", "content": "Tell."}], "max_tokens": 1900}
    with client.chat.completions.create(model=servers.llm, stream=True, **asked) as stream:
        next(iter(stream))
        assert not holds_nothing(inline_server)
    eventually(lambda: holds_nothing(inline_server))
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3, max_retries=0).chat.completions.create(
            model=servers.llm, **asked
        )
    eventually(lambda: holds_nothing(inline_server))
