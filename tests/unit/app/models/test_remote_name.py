"""The names of remote models, and which key goes where."""

from pathlib import Path

import pytest

from heddle.app.models.remote_name import (
    SERVERS_MAX,
    check_remote_name,
    is_remote,
    read_remote_name,
)
from heddle.core.errors import ConfigError

LOCAL = "http://127.0.0.1:8000/v1"
KEYS = {"OPENAI_API_KEY": "sk-openai", "HEDDLE_REMOTE_KEY": "own-key"}


@pytest.mark.parametrize(
    ("name", "remote"),
    [
        (LOCAL, True),
        (f"{LOCAL}#m", True),
        ("https://host/v1", True),
        ("openai#gpt", True),
        ("openai", True),
        ("openai/gpt-oss-20b", False),
        ("extract", False),
        ("auto", False),
        (Path("openai#x"), False),
        (None, False),
    ],
)
def test_remote_names_are_told_from_others(name: object, remote: bool) -> None:
    assert is_remote(name) is remote


def test_a_name_stands_behind_the_last_address() -> None:
    read = read_remote_name(f"{LOCAL}, http://127.0.0.1:8001/v1#org/model:7b", "--model", {})
    assert [str(address) for address in read.addresses] == [LOCAL, "http://127.0.0.1:8001/v1"]
    assert read.model == "org/model:7b"
    assert read_remote_name(LOCAL, "--model", {}).model == ""


def test_openai_is_asked_at_its_address_or_at_the_environments() -> None:
    assert str(read_remote_name("openai#m", "--model", {}).addresses[0]) == (
        "https://api.openai.com/v1"
    )
    there = read_remote_name("openai#m", "--model", {"OPENAI_BASE_URL": LOCAL, **KEYS})
    assert str(there.addresses[0]) == LOCAL
    assert there.key.value == "sk-openai"


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({}, ""),
        ({"OPENAI_API_KEY": "sk-openai"}, ""),
        ({"OPENAI_API_KEY": "sk-openai", "OPENAI_BASE_URL": "https://other/v1"}, ""),
        ({"OPENAI_API_KEY": "sk-openai", "OPENAI_BASE_URL": f"{LOCAL}/"}, "sk-openai"),
        (KEYS, "own-key"),
        ({"OPENAI_API_KEY": "your key here"}, ""),
        ({**KEYS, "OPENAI_API_KEY": "your key here"}, "own-key"),
    ],
)
def test_openais_key_goes_to_the_address_that_it_belongs_to(
    environment: dict[str, str], key: str
) -> None:
    assert read_remote_name(f"{LOCAL}#m", "--model", environment).key.value == key


@pytest.mark.parametrize(
    "name",
    [
        "openai",
        "openai#",
        "http://",
        f"{LOCAL}#a,{LOCAL}#b",
        f"{LOCAL},",
        f"{LOCAL},nonsense",
        LOCAL + "#" + "x" * 300,
        ",".join(f"http://10.0.0.{n}/v1" for n in range(SERVERS_MAX + 1)),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_settings_name(name: str) -> None:
    with pytest.raises(ConfigError, match="--model"):
        read_remote_name(name, "--model", {})


def test_a_configuration_refuses_a_password_before_it_is_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        check_remote_name("http://me:hunter2@host/v1#m")
    assert "hunter2" not in str(refused.value)
    for fine in ("extract", Path("models/x"), f"{LOCAL}#m", "owner/name"):
        check_remote_name(fine)


def test_a_broken_key_is_named_by_its_variable_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as refused:
        read_remote_name("openai#m", "--model", {"OPENAI_API_KEY": "sk with blank"})
    assert "blank" not in str(refused.value).replace("holds a blank", "")
