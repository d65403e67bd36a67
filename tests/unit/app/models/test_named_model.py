"""A lane on a node takes the model only if it is the server's."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from heddle.app.models import named_model
from heddle.app.models.model_files import generator_files
from heddle.app.models.named_model import by_name
from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind
from heddle.engines.llm.build import LlmSettings
from heddle.hosts.lane_main import call_factory
from heddle.hosts.lane_spec import EngineSpec


@dataclass(frozen=True)
class Built:
    settings: LlmSettings


def build(name: str, epoch: int, settings: LlmSettings) -> Built:
    return Built(settings)


def write_model(folder: Path, value: float) -> Path:
    folder.mkdir(parents=True)
    save_file({"weight": np.full(4, value, np.float32)}, folder / "model.safetensors")
    return folder


def engine_of(settings: LlmSettings, name: str, fingerprint: str) -> EngineSpec:
    kinds = frozenset({PrimitiveKind.DECODING})
    return by_name(EngineSpec("llm", f"{__name__}:build", settings, 4, kinds), name, fingerprint)


def test_the_node_s_own_directory_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = write_model(tmp_path / "server" / "small", 1.0)
    there = write_model(tmp_path / "node" / "small", 1.0)
    engine = engine_of(LlmSettings(here, kv_bytes=7), "small", generator_files(here).fingerprint)
    monkeypatch.setattr(named_model, "model_directory", lambda name: there)
    built = call_factory(engine, 1)
    assert isinstance(built, Built)
    assert (built.settings.model_dir, built.settings.kv_bytes) == (there, 7)


def test_another_revision_and_no_model_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = write_model(tmp_path / "server" / "small", 1.0)
    there = write_model(tmp_path / "node" / "small", 2.0)
    engine = engine_of(LlmSettings(here), "nowhere", generator_files(here).fingerprint)
    with pytest.raises(ConfigError, match=r"node .*: model 'nowhere' is no directory"):
        call_factory(engine, 1)
    monkeypatch.setattr(named_model, "model_directory", lambda name: there)
    with pytest.raises(ConfigError, match=r"has model 'nowhere' as small-\w+, and the server has"):
        call_factory(engine, 1)
