"""`heddle keys new`: the key is shown once, and its file holds what a server reads."""

from pathlib import Path

import pytest

from heddle.cli.main import main
from heddle.server.keys.api_key import KeyScope, digest_of
from heddle.server.keys.key_file import read_keys


def test_a_key_is_made(tmp_path: Path, capsys):
    file = tmp_path / "keys.toml"
    limits = ["--requests-per-minute", "60", "--tokens-per-minute", "9000"]
    scopes = ["--scopes", "ask,embed"]
    assert main(["keys", "new", str(file), "app", "--tenant", "acme", *scopes, *limits]) == 0
    assert main(["keys", "new", str(file), "root", "--scopes", "admin"]) == 0
    shown = capsys.readouterr()
    app, root = shown.out.splitlines()
    assert "only time" in shown.err
    assert app not in file.read_text()
    first, second = read_keys(file)
    assert (first.name, first.digest, first.tenant) == ("app", digest_of(app), "acme")
    assert first.scopes == {KeyScope.ASK, KeyScope.EMBED}
    assert (first.requests_per_minute, first.tokens_per_minute) == (60, 9000)
    assert (second.digest, second.tenant) == (digest_of(root), None)


def test_a_key_of_no_tenant_must_be_an_admins(tmp_path: Path, capsys):
    file = tmp_path / "keys.toml"
    assert main(["keys", "new", str(file), "app"]) == 2
    shown = capsys.readouterr()
    assert "name a --tenant, or give the scope admin" in shown.err
    assert shown.out == ""
    assert not file.exists()


def test_a_file_that_others_may_write_gets_no_key(tmp_path: Path, capsys):
    file = tmp_path / "keys.toml"
    file.touch()
    file.chmod(0o666)
    assert main(["keys", "new", str(file), "app", "--tenant", "t"]) == 2
    shown = capsys.readouterr()
    assert "chmod 600" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--scopes", "read"], "'read' is no scope; there are ask, embed, write, admin"),
        (["--scopes", ""], "'' is no scope"),
        (["--tokens-per-minute", "0"], "'0' must be an integer of at least 1"),
        (["--requests-per-minute", "²"], "'²' must be an integer of at least 1"),
    ],
)
def test_what_is_no_scope_and_no_limit(given: list[str], words: str, tmp_path: Path, capsys):
    with pytest.raises(SystemExit):
        main(["keys", "new", str(tmp_path / "k"), "app", "--tenant", "t", *given])
    assert words in capsys.readouterr().err
