"""The key that a corpus's server may be sent."""

from pathlib import Path

from heddle.cli.running.advert import FILE_NAME
from heddle.cli.running.own_key import key_problem


def test_a_server_that_has_just_ended_is_sent_no_key(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{}")
    assert key_problem(tmp_path, "hush") == ""
    assert "set HEDDLE_API_KEY" in key_problem(tmp_path, "")
    (tmp_path / FILE_NAME).unlink()
    assert key_problem(tmp_path, "hush") == f"{tmp_path / FILE_NAME} is no longer there"
