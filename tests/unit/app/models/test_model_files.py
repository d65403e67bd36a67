"""A model's files: their size, and a fingerprint that differs between models of one name."""

import json
from pathlib import Path

import pytest

from heddle.app.models.model_files import ModelFiles, embedder_files, generator_files
from heddle.core.errors import InputError
from heddle.encoder.encoder_directory import EncoderDirectory
from tests.helpers.bare_model import write_bare_model


def test_all_weight_files_count(tmp_path: Path) -> None:
    model = write_bare_model(tmp_path / "model", weight_bytes=1000)
    (model / "model.safetensors").rename(model / "some.safetensors")
    (model / "more.safetensors").write_bytes(bytes(500))
    files = generator_files(model)
    assert (files.directory, files.weight_bytes) == (model, 1500)
    assert files.loaded_bytes_max == 3000
    assert files.name == "model"


def test_a_copy_of_the_weights_in_another_layout_takes_no_memory(tmp_path: Path) -> None:
    model = write_bare_model(tmp_path / "model", weight_bytes=1000)
    whole = model / "model.safetensors"
    (model / "consolidated.safetensors").write_bytes(whole.read_bytes())
    assert generator_files(model).weight_bytes == 1000
    part = whole.rename(model / "model-00001-of-00001.safetensors")
    weight_map = json.dumps({"weight_map": {"zeros": part.name}})
    (model / "model.safetensors.index.json").write_text(weight_map, encoding="utf-8")
    assert generator_files(model).weight_bytes == 1000


def test_a_fingerprint_tells_models_of_one_name_apart(tmp_path: Path) -> None:
    made: list[ModelFiles] = []
    for place, config, weight in (
        ("a", "{}", 0),
        ("b", "{}", 0),
        ("c", '{"x": 1}', 0),
        ("d", "{}", 9),
    ):
        (tmp_path / place).mkdir()
        model = write_bare_model(tmp_path / place / "model")
        (model / "config.json").write_text(config, encoding="utf-8")
        (model / "model.safetensors").write_bytes(bytes([weight]) * 1000)
        made.append(generator_files(model))
    first, same, other_config, other_weights = (files.fingerprint for files in made)
    assert first == same
    assert first.startswith("model-")
    assert len({first, other_config, other_weights}) == 3


def test_a_model_needs_no_configuration_to_be_planned_with(tmp_path: Path) -> None:
    model = write_bare_model(tmp_path / "model")
    (model / "config.json").unlink()
    assert generator_files(model).weight_bytes == 1000


def test_a_model_without_safetensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \.safetensors.*safe_serialization=True"):
        generator_files(tmp_path)


def test_an_embedder_goes_by_the_name_that_corpora_record(tmp_path: Path) -> None:
    encoder = EncoderDirectory.open(str(write_bare_model(tmp_path / "encoder")))
    files = embedder_files(encoder)
    assert files.fingerprint == encoder.name
    assert files.directory == encoder.path
