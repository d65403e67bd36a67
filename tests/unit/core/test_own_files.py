"""What may be loaded as code: files and folders that no other user can have written."""

import os
from pathlib import Path

import pytest

from heddle.core.own_files import is_own, own_folder


@pytest.mark.parametrize(
    ("mode", "own"), [(0o700, True), (0o755, True), (0o775, False), (0o702, False)]
)
def test_nobody_else_may_write(tmp_path: Path, mode: int, own: bool) -> None:
    tmp_path.chmod(mode)
    assert is_own(tmp_path.stat()) is own


def test_another_users_file_is_not_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = os.stat_result((0o40700, 1, 1, 1, 4321, 0, 0, 0, 0, 0))
    assert not is_own(status)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert is_own(status)


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert own_folder(folder) == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_open_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert own_folder(tmp_path) == tmp_path
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_link_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert own_folder(tmp_path / "link") is None


def test_another_users_folder_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heddle.core.own_files.is_own", lambda status: False)
    assert own_folder(tmp_path) is None
