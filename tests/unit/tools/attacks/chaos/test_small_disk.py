"""A disk that can be filled, or the reason why there is none."""

import subprocess
from pathlib import Path

import pytest

from tools.attacks.chaos import small_disk as module
from tools.attacks.chaos.small_disk import small_disk


def test_the_reason_is_given_and_the_folder_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = subprocess.CompletedProcess([], 32, "", "mount: must be superuser\n")
    called: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        called.append(command[0])
        return refused

    monkeypatch.setattr(module.subprocess, "run", run)
    with small_disk(tmp_path / "disk") as failure:
        assert failure == "mount: must be superuser"
        assert (tmp_path / "disk").is_dir()
    assert called == ["mount"]


def test_a_machine_without_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with small_disk(tmp_path / "disk") as failure:
        assert "mount" in failure
