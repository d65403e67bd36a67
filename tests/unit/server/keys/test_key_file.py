"""The file of keys: who may write it, what an entry must hold, how one is added."""

import math
import os
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.server.keys import key_file
from heddle.server.keys.api_key import ApiKey, KeyScope, digest_of, new_key
from heddle.server.keys.key_file import add_key, entry_text, keys_of, read_keys

ENTRY = {
    "name": '"app"',
    "sha256": f'"{digest_of("secret").hex()}"',
    "tenant": '"acme"',
    "scopes": '["ask", "embed"]',
    "requests_per_minute": "60",
    "tokens_per_minute": "9_000",
}
APP = ApiKey(
    "app", digest_of("secret"), "acme", frozenset({KeyScope.ASK, KeyScope.EMBED}), 60.0, 9_000.0
)


def text(**changed: str | None) -> str:
    fields = {**ENTRY, **changed}
    lines = [f"{name} = {value}" for name, value in fields.items() if value is not None]
    return "\n".join(["[[keys]]", *lines, ""])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(text())
    path.chmod(0o600)
    return path


def test_an_entry_is_read(path: Path):
    assert read_keys(path) == (APP,)


def test_what_is_left_out_is_no_limit():
    [key] = keys_of(text(requests_per_minute=None, tokens_per_minute=None).encode(), "k")
    assert (key.requests_per_minute, key.tokens_per_minute) == (math.inf, math.inf)


@pytest.mark.parametrize("scopes", ["ask", "embed", "write"])
def test_only_an_admin_is_of_no_tenant(scopes: str):
    with pytest.raises(ConfigError, match=r"key 1: tenant is missing: name one, or add the scope"):
        keys_of(text(tenant=None, scopes=f'["{scopes}"]').encode(), "k")
    [key] = keys_of(text(tenant=None, scopes=f'["{scopes}", "admin"]').encode(), "k")
    assert key.tenant is None
    [key] = keys_of(text(tenant='""', scopes=f'["{scopes}"]').encode(), "k")
    assert key.tenant == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": '"a b"'}, "name must be 1 to 64 letters"),
        ({"name": None}, "name must be 1 to 64 letters"),
        ({"sha256": '"secret"'}, "sha256 must be 64 hexadecimal digits"),
        ({"sha256": None}, "sha256 must be 64 hexadecimal digits"),
        ({"scopes": "[]"}, "scopes must be a list of some of ask, embed, write, admin"),
        ({"scopes": '"ask"'}, "scopes must be a list of some of ask, embed, write, admin"),
        ({"scopes": '["read"]'}, "scopes must be a list of some of ask, embed, write, admin"),
        ({"scopes": "[[]]"}, "scopes must be a list of some of ask, embed, write, admin"),
        ({"tenant": "7"}, "tenant must be a text of at most 256 characters"),
        ({"tenant": f'"{"x" * 257}"'}, "tenant must be a text of at most 256 characters"),
        ({"requests_per_minute": "0"}, "requests_per_minute must be an integer of at least 1"),
        ({"tokens_per_minute": "1.5"}, "tokens_per_minute must be an integer of at least 1"),
        ({"tokens_per_minute": "true"}, "tokens_per_minute must be an integer of at least 1"),
        ({"scope": '["ask"]'}, "'scope' is no field: did you mean 'scopes'?"),
    ],
)
def test_an_entry_that_can_not_be_used_is_named(changed: dict[str, str | None], words: str):
    with pytest.raises(ConfigError) as refused:
        keys_of(text(**changed).encode(), "keys.toml")
    assert f"keys.toml: key 1: {words}" in str(refused.value)


@pytest.mark.parametrize("content", [b"keys = 1", b"[keys]", b"keys = [1]", b"a = 1", b"="])
def test_a_file_of_another_form(content: bytes):
    with pytest.raises(ConfigError, match=r"^keys\.toml (must hold|is no TOML)"):
        keys_of(content, "keys.toml")


def test_two_entries_share_no_name_and_no_key():
    other = digest_of("other").hex()
    with pytest.raises(ConfigError, match="key 1: another key has the same name"):
        keys_of((text() + text(sha256=f'"{other}"')).encode(), "k")
    with pytest.raises(ConfigError, match="key 1: another key has the same sha256"):
        keys_of((text() + text(name='"b"')).encode(), "k")


def test_there_is_a_bound_on_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(key_file, "KEYS_MAX", 1)
    with pytest.raises(ConfigError, match="2 keys; at most 1"):
        keys_of((text() + text()).encode(), "k")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(mode: int, path: Path):
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"others may write .*chmod 600"):
        read_keys(path)


@pytest.mark.parametrize(("mode", "is_said"), [(0o640, True), (0o604, True), (0o600, False)])
def test_a_file_that_others_may_read_is_warned_of(
    mode: int, path: Path, caplog: pytest.LogCaptureFixture, *, is_said: bool
):
    path.chmod(mode)
    assert read_keys(path) == (APP,)
    assert ("others may read" in caplog.text) is is_said


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch):
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 12_345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        read_keys(path)


def test_files_that_are_none(tmp_path: Path):
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        read_keys(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        read_keys(tmp_path)
    empty = tmp_path / "empty.toml"
    empty.touch(0o600)
    with pytest.raises(ConfigError, match="has no keys: make one with heddle keys new"):
        read_keys(empty)
    empty.write_bytes(b"#" * (key_file.FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="is larger than"):
        read_keys(empty)


@pytest.mark.parametrize("tenant", ["acme", "", 'a "b" \\ ü 😀', None])
def test_a_key_is_added_as_it_is(tenant: str | None, tmp_path: Path):
    path = tmp_path / "keys.toml"
    first = ApiKey("a", digest_of(new_key()), tenant, frozenset(KeyScope), 1_000_000.0)
    second = ApiKey("b", digest_of(new_key()), "x", frozenset({KeyScope.ASK}))
    add_key(path, first)
    add_key(path, second)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_keys(path) == (first, second)


def test_a_name_that_is_there_is_not_added(path: Path):
    before = path.read_text()
    with pytest.raises(ConfigError, match="another key has the same name"):
        add_key(path, APP)
    assert path.read_text() == before


def test_a_file_without_a_last_line_end_goes_on_in_a_new_line(path: Path):
    path.write_text(text().rstrip("\n"))
    second = ApiKey("b", digest_of(new_key()), "x", frozenset({KeyScope.ASK}))
    add_key(path, second)
    assert read_keys(path) == (APP, second)


def test_large_limits_are_written_whole():
    key = ApiKey("a", digest_of("a"), "t", frozenset({KeyScope.ASK}), 12_345_678.0)
    assert "requests_per_minute = 12345678\n" in entry_text(key)


def test_keys_are_long_and_differ():
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) >= len("heddle-") + 43 for key in keys)
