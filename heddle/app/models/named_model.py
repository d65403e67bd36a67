"""A model that a lane finds by its name on its own node, where the server's paths mean nothing."""

import platform
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final

from heddle.app.models.model_files import generator_files
from heddle.app.models.model_source import model_directory
from heddle.core.errors import ConfigError, InputError
from heddle.core.ports import SteppedEngine
from heddle.engines.llm.build import LlmSettings
from heddle.hosts.lane_spec import EngineSpec

FACTORY: Final = f"{__name__}:build_engine"


@dataclass(frozen=True, slots=True)
class NamedModel:
    """An LLM engine whose model is looked for where the lane runs.

    Args:
        name: the model's, as a server takes it.
        fingerprint: of the server's own copy, which the node's must have, too.
        factory: builds the engine.
        settings: its settings; `model_dir` is filled in on the node.
    """

    name: str
    fingerprint: str
    factory: str
    settings: LlmSettings


def by_name(engine: EngineSpec, name: str, fingerprint: str) -> EngineSpec:
    """Return an LLM engine that looks for its model by name."""
    assert isinstance(engine.settings, LlmSettings), "only an LLM has a model of this kind"
    named = NamedModel(name, fingerprint, engine.factory, engine.settings)
    return replace(engine, factory=FACTORY, settings=named)


def build_engine(name: str, epoch: int, settings: NamedModel) -> SteppedEngine:
    """Find the model on this node, compare it with the server's, and build the engine.

    Raises:
        ConfigError: it isn't here, it is another one, or its engine can't be built.
    """
    here = f"node {platform.node()}"
    try:
        files = generator_files(model_directory(settings.name))
    except InputError as error:
        raise ConfigError(f"{here}: {error}") from error
    if files.fingerprint != settings.fingerprint:
        raise ConfigError(
            f"{here} has model {settings.name!r} as {files.fingerprint}, and the server has "
            f"{settings.fingerprint}: copy one of them over the other"
        )
    module, _, function = settings.factory.partition(":")
    build = getattr(import_module(module), function)
    engine: SteppedEngine = build(
        name, epoch, replace(settings.settings, model_dir=files.directory)
    )
    return engine
