"""How much disk chunk KV may take, and what is refused before hours of work."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from heddle.app.priming.chunk_kv_disk import (
    DISK_BYTES_DEFAULT,
    bytes_held,
    check_room,
    chunk_kv_directory,
    disk_bytes_max,
    readable_size,
)
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, StorageError


def config(index: Path, disk: int | None = None) -> ServerConfig:
    return ServerConfig(index=index, kv_reuse_disk_bytes=disk)


def hold(index: Path, count: int, model: str = "model") -> None:
    folder = chunk_kv_directory(index) / model
    folder.mkdir(parents=True)
    with (folder / "a.kv.safetensors").open("wb") as file:
        file.truncate(count)  # sparse: it takes no room


def test_by_default_it_is_a_gibibyte_or_what_is_there(tmp_path: Path):
    assert disk_bytes_max(config(tmp_path)) == DISK_BYTES_DEFAULT
    assert disk_bytes_max(config(tmp_path, 0)) == 0
    assert disk_bytes_max(ServerConfig()) == 0
    hold(tmp_path, 3 << 30)
    assert bytes_held(chunk_kv_directory(tmp_path)) == 3 << 30
    assert disk_bytes_max(config(tmp_path)) == 3 << 30
    assert disk_bytes_max(config(tmp_path, 1 << 20)) == 1 << 20


def test_by_default_no_model_gets_the_room_of_all_models_together(tmp_path: Path):
    """Else each would fill what both take, and get that much more at the next start."""
    hold(tmp_path, 3 << 30, "one")
    hold(tmp_path, 2 << 30, "another")
    assert disk_bytes_max(config(tmp_path)) == 3 << 30


def test_a_file_that_is_removed_meanwhile_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hold(tmp_path, 3 << 20)
    listed = list(chunk_kv_directory(tmp_path).rglob("*"))
    gone = chunk_kv_directory(tmp_path) / "model" / "b.kv.safetensors"
    monkeypatch.setattr(Path, "rglob", lambda _self, _pattern: iter([*listed, gone]))
    assert bytes_held(chunk_kv_directory(tmp_path)) == 3 << 20


def test_a_budget_that_is_too_small_names_the_setting(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=r"takes about 2\.0 GiB .* may take 1\.0 GiB.*kv_reuse_disk_bytes"
    ):
        check_room(config(tmp_path), 2 << 30)
    with pytest.raises(ConfigError, match=r"may take 0\.0 MiB: raise kv_reuse_disk_bytes"):
        check_room(config(tmp_path, 0), 1)
    check_room(config(tmp_path, 2 << 30), 2 << 30)


def test_a_disk_without_room_is_told_before_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100 << 20))
    with pytest.raises(StorageError, match=r"200\.0 MiB more on the disk .* has 100\.0 MiB free"):
        check_room(config(tmp_path), 200 << 20)
    hold(tmp_path, 150 << 20)
    check_room(config(tmp_path), 200 << 20)


def test_a_directory_that_can_not_be_written_is_told(tmp_path: Path):
    chunk_kv_directory(tmp_path).write_text("a file in its place")
    with pytest.raises(StorageError, match=r"chunk KV can't be written to .*kv"):
        check_room(config(tmp_path), 1)


def test_sizes_are_readable():
    assert readable_size(3 << 29) == "1.5 GiB"
    assert readable_size(3 << 19) == "1.5 MiB"
