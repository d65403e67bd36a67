"""A secret is made for its owner alone, and one that others can read is refused."""

from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.hosts.nodes.secret import SECRET_CHARACTERS_MIN, read_secret, write_secret


def test_a_new_secret_is_read_again_and_never_written_over(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_secret(file)
    secret = read_secret(file)
    assert len(secret) >= SECRET_CHARACTERS_MIN
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="File exists"):
        write_secret(file)
    assert read_secret(file) == secret


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("x" * 40, 0o640, "other users can read"),
        ("x" * 31, 0o600, "has 31 characters, at least 32"),
        (None, 0o600, "can't be read"),
    ],
)
def test_a_bad_secret_is_refused_and_not_shown(
    tmp_path: Path, text: str | None, mode: int, words: str
) -> None:
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    with pytest.raises(ConfigError, match=words) as raised:
        read_secret(file)
    assert "xxx" not in str(raised.value)
