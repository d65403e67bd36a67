"""`--model auto`: what runs on this machine is taken, and said."""

import pytest

from heddle.app.remote.auto_model import LOCAL_SERVERS, LocalServer, without_auto
from heddle.app.server_config import ServerConfig
from tests.helpers.fake_endpoint import FakeEndpoint, plain

INDEX = {"index": "corpus"}


def test_the_first_server_with_a_model_that_writes_is_taken() -> None:
    with FakeEndpoint(models=()) as empty, FakeEndpoint(models=("nomic-embed", "a", "b")) as fake:
        page = FakeEndpoint(others={"/models": plain(200, "<html>", kind="text/html")})
        with page as other:
            servers = [LocalServer(str(n), f.url) for n, f in enumerate((empty, other, fake))]
            found = without_auto(ServerConfig("auto", **INDEX), servers)
    assert found.config.generator == f"{fake.url}#a"
    assert found.words == f"took 2 at {fake.url}, model 'a', the first of 2"


def test_without_any_the_default_is_taken_and_said() -> None:
    with FakeEndpoint() as gone:
        servers = [LocalServer("Ollama", gone.url)]
    found = without_auto(ServerConfig("auto", **INDEX), servers)
    assert found.config.generator == "extract"
    assert found.words == f"found no model on this machine, at Ollama ({gone.url}): took extract"


@pytest.mark.parametrize("generator", ["extract", "reader", None, "http://10.0.0.1/v1"])
def test_nothing_is_looked_for_unless_it_is_asked_for(generator: str | None) -> None:
    with FakeEndpoint() as fake:
        config = ServerConfig(generator, **INDEX)
        assert without_auto(config, [LocalServer("Ollama", fake.url)]) == (config, "")
        assert fake.connections == 0


def test_only_this_machine_is_looked_at() -> None:
    assert all(server.url.startswith("http://127.0.0.1:") for server in LOCAL_SERVERS)
