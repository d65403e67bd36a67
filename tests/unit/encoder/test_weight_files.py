"""A model's weights count once, however many layouts of them lie in its directory."""

import json
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.encoder.weight_files import weight_files


def names(directory: Path) -> list[str]:
    return [file.name for file in weight_files(directory)]


def write(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).write_bytes(b"weights")


def test_one_file_is_all_there_is(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    write(tmp_path, "model.safetensors", "model_fp16.safetensors")
    assert names(tmp_path) == ["model.safetensors"]


def test_of_a_model_in_parts_those_count_that_its_list_names(tmp_path: Path) -> None:
    parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    write(tmp_path, *parts, "consolidated.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": parts[1], "b": parts[0], "c": parts[0]}}))
    assert names(tmp_path) == parts
    index.write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        weight_files(tmp_path)


def test_without_either_all_of_them_count(tmp_path: Path) -> None:
    write(tmp_path, "b.safetensors", "a.safetensors")
    assert names(tmp_path) == ["a.safetensors", "b.safetensors"]
    for record in ({}, {"weight_map": {"a": "gone.safetensors"}}, {"weight_map": 7}):
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(record))
        assert names(tmp_path) == ["a.safetensors", "b.safetensors"]
