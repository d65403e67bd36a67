"""Addresses of remote models, and the keys that go there."""

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.remote.address import Address
from heddle.engines.remote.secret import HIDDEN, NO_KEY, Secret


@pytest.mark.parametrize(
    ("url", "shown", "is_here", "is_readable"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", True, False),
        ("http://localhost:11434/v1/", "http://localhost:11434/v1", True, False),
        ("http://[::1]:8080", "http://[::1]:8080", True, False),
        ("http://10.0.0.7/v1", "http://10.0.0.7/v1", False, True),
        ("https://api.example.org/v1", "https://api.example.org/v1", False, False),
        ("https://api.example.org:8443", "https://api.example.org:8443", False, False),
    ],
)
def test_an_address_is_read(url: str, shown: str, is_here: bool, is_readable: bool) -> None:
    address = Address.of(url, "--model")
    assert str(address) == shown
    assert (address.is_here, address.is_readable) == (is_here, is_readable)


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///v1",
        "ftp://127.0.0.1/v1",
        "http://host:port/v1",
        "http://host:99999/v1",
        "http://[::1/v1",
        "http://host/v1?key=1",
        "http://ho st/v1",
        "http://my..host/v1",
        "http://host/v1\r\nX-Evil: 1",
        "http://höst/v1",
        "http://host/v1/chat/completions",
        "http://host/v1/embeddings/",
    ],
)
def test_what_is_no_address_is_refused_by_the_settings_name(url: str) -> None:
    with pytest.raises(ConfigError, match="--model"):
        Address.of(url, "--model")


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="HEDDLE_REMOTE_KEY") as refused:
        Address.of("https://me:hunter2@host/v1", "--model")
    assert "hunter2" not in str(refused.value)


def test_a_key_is_shown_nowhere() -> None:
    key = Secret("sk-123", "OPENAI_API_KEY")
    assert "sk-123" not in f"{key} {key!r}"
    assert key.header == "Authorization: Bearer sk-123\r\n"
    assert key.redacted("wrong key sk-123!") == f"wrong key {HIDDEN}!"
    assert NO_KEY.header == ""
    assert NO_KEY.redacted("text") == "text"


@pytest.mark.parametrize("value", ["sk 1", "sk-1\r\nX-Evil: 1", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as refused:
        Secret(value, "OPENAI_API_KEY")
    assert value not in str(refused.value)
