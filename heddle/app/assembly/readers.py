"""Which reading models a server has, and the engines of its lanes that run them."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from heddle.app.assembly.embedding_lanes import EmbeddingLane
from heddle.app.models.model_files import weight_bytes
from heddle.app.models.model_names import is_extractor
from heddle.app.models.model_source import model_directory
from heddle.app.models.remote_name import is_remote
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.engines.reading.build import ReadingFacts, ReadingSettings, reading_facts
from heddle.hosts.lane_spec import EngineSpec

log = logging.getLogger(__name__)
READING: Final = "reading"
RERANKING: Final = "reranking"
TASKS_MAX: Final = 64  # in flight on an engine; each has the passages of one search


@dataclass(frozen=True, slots=True)
class Reader:
    """A reading model of a server: its engine's name, its settings, and the facts of its files."""

    name: str
    settings: ReadingSettings
    facts: ReadingFacts

    @property
    def weight_bytes(self) -> int:
        """Size of its weight files."""
        return weight_bytes(self.facts.directory)

    def line(self) -> str:
        """Return the model and its kinds of work, in words."""
        kinds = " and ".join(sorted(kind.value for kind in self.facts.kinds))
        return f"{self.name}: {self.facts.name}, {kinds}"

    def engine(self, *, threads: int, beside: EmbeddingLane | None) -> EngineSpec:
        """Return the engine for a lane.

        Args:
            threads: torch threads of the lane.
            beside: the embedding lane that it shares; None = it runs in the retrieval lane.
        """
        settings = replace(self.settings, threads=threads)
        if beside is not None:
            settings = replace(settings, device=beside.device, step_s_max=beside.step_s_max)
        return EngineSpec(
            self.name,
            "heddle.engines.reading.build:build_engine",
            settings,
            TASKS_MAX,
            self.facts.kinds,
        )


def plan_readers(config: ServerConfig) -> tuple[Reader, ...]:
    """Return the reading models that a configuration asks for.

    Raises:
        ConfigError: one is not installed, or can't read.
        InputError: there is no such model.
    """
    return tuple(_readers(config))


def _readers(config: ServerConfig) -> Iterator[Reader]:
    reranks = is_extractor(config.reranker)
    if config.reads:
        settings = ReadingSettings(
            None, config.dtype, "cpu", reranks=reranks, order=config.call_order
        )
        try:
            yield Reader(READING, settings, reading_facts(settings))
        except ConfigError as error:
            if is_extractor(config.generator):
                raise
            log.info("passages can't be reranked: %s", error)
    if config.reranker is not None and not reranks and not is_remote(config.reranker):
        directory = model_directory(config.reranker)
        settings = ReadingSettings(str(directory), config.dtype, "cpu", order=config.call_order)
        yield Reader(RERANKING, settings, reading_facts(settings))
