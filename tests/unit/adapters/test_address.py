"""The address of a running server, and the key for it."""

import pytest

from heddle.adapters.address import server_address, server_key
from heddle.adapters.by_url import ByUrl
from heddle.adapters.values import SearchCall
from heddle.core.errors import ConfigError, EngineError
from tests.helpers.fake_endpoint import FakeEndpoint, plain


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8321", "http://127.0.0.1:8321"),
        (" http://127.0.0.1:8321/v1/\n", "http://127.0.0.1:8321"),
        ("https://heddle.example.org/below", "https://heddle.example.org/below"),
        ("http://[::1]:8321", "http://[::1]:8321"),
        ("http://höst", "http://höst"),
    ],
)
def test_an_address_is_read(url: str, address: str) -> None:
    assert server_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8321",
        "ftp://127.0.0.1",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "http://my..host",
        "http://" + "a" * 64,
        "http://host\n:80",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a server: use http://HOST:PORT"):
        ByUrl(url)


def test_a_key_may_end_with_its_files_line_end() -> None:
    assert server_key("hush\n") == "hush"
    assert server_key("") == ""
    assert ByUrl("http://host", api_key="hush\n") == ByUrl("http://host", api_key="hush")


@pytest.mark.parametrize("key", ["hush\nX-Evil: 1", "hu sh", "hüsh", "hush\0"])
def test_a_key_that_no_header_holds_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="api_key holds a character") as refused:
        ByUrl("http://host", api_key=key)
    assert "sh" not in str(refused.value)


def test_a_password_in_an_address_is_sent_and_not_shown() -> None:
    with FakeEndpoint(others={"/search": plain(200, "no JSON")}) as server:
        engine = ByUrl(server.url.replace("//", "//me:hunter2@"))
        with pytest.raises(EngineError, match="something else than JSON") as told:
            engine.search(SearchCall("Who?"))
        assert server.asked[0].headers["authorization"].startswith("Basic ")
    with pytest.raises(EngineError, match="can't be reached") as absent:
        engine.search(SearchCall("Who?"))
    with pytest.raises(ConfigError, match="is no address") as wrong:
        ByUrl("http://me:hunter2@host:port")
    for error in (told, absent, wrong):
        assert "hunter2" not in str(error.value)
    assert "hunter2" not in engine.name
