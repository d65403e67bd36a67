"""Engines as Teola registers them: by name, before an application begins. (Teola §3.2)"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from heddle.core.errors import ConfigError
from heddle.hosts.machine import read_machine
from heddle.workflow.component_template import EMBEDDING, LLM, RERANKING, SEARCHING, VALUES

log = logging.getLogger(__name__)

SETTING_OF: Final = {
    LLM: "generator",
    EMBEDDING: "embedder",
    SEARCHING: "index",
    RERANKING: "reranker",
}
REPLICAS_OF: Final = {LLM: "llm", EMBEDDING: "retrieval", SEARCHING: "retrieval"}
RESOURCES: Final = ("GPU", "CPU")

REGISTERED: "Final[dict[str, Engine]]" = {}
"""The engines of this process by name; the newest of a name counts."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that components name; to make one registers it.

    Args:
        name: "LLM", "Embedding", "Searching" or "Reranking"; any other is a tool's.
        executable: a model or, for Searching, a corpus directory, as Server takes them; an engine
            of your own; for a tool, a function.
        config: settings of the server that belong to it, such as {"max_num_seqs": 8}.
        resource: how many GPUs or CPU cores it asks for, as in {"GPU": 1}. Where the machine has
            fewer, it takes those and a warning says so.
        instances: equal lanes of it; for a tool, calls at once.

    Raises:
        ConfigError: a value can't be used.
    """

    name: str
    executable: Any
    config: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, int] = field(default_factory=dict)
    instances: int = 1

    def __post_init__(self) -> None:
        where = f"Engine {self.name!r:.40}"
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ConfigError(f"{where}: name must be a plain name such as 'LLM'")
        if not isinstance(self.config, Mapping):
            raise ConfigError(f"{where}: config must be a mapping of settings")
        unknown = sorted(set(self.resource) - set(RESOURCES))
        if unknown or not all(isinstance(n, int) and n >= 0 for n in self.resource.values()):
            raise ConfigError(f"{where}: resource must count {' and '.join(RESOURCES)}")
        if not isinstance(self.instances, int) or self.instances < 1:
            raise ConfigError(f"{where}: instances must be at least 1, got {self.instances!r:.40}")
        if self.is_tool and not callable(self.executable):
            raise ConfigError(f"{where}: executable of a tool must be a function")
        if self.instances > 1 and not self.is_tool and not self._has_replicas:
            raise ConfigError(
                f"{where}: instances must be 1: only models and corpora of "
                f"{', '.join(REPLICAS_OF)} run as several lanes"
            )
        REGISTERED[self.name] = self

    @property
    def is_tool(self) -> bool:
        """Whether it calls a function."""
        return self.name not in VALUES

    @property
    def is_own(self) -> bool:
        """Whether its executable is an engine of the user's, not a model or a directory."""
        return not self.is_tool and not isinstance(self.executable, str | Path | None)

    @property
    def _has_replicas(self) -> bool:
        return not self.is_own and self.name in REPLICAS_OF

    def settings(self) -> dict[str, Any]:
        """Return its settings of a server."""
        found = dict(self.config)
        if not self.is_tool and not self.is_own:
            found[SETTING_OF[self.name]] = self.executable
        if self.instances > 1 and self._has_replicas:
            found["replicas"] = f"{REPLICAS_OF[self.name]}={self.instances}"
        self._look_for_resources()
        return found

    def _look_for_resources(self) -> None:
        machine = read_machine()
        there = {"GPU": len(machine.gpus), "CPU": machine.cores}
        for name, wanted in self.resource.items():
            if wanted > there[name]:
                log.warning(
                    "engine %r asks for %d %s and this machine has %d: it takes what there is",
                    self.name,
                    wanted,
                    name,
                    there[name],
                )


def tools_of(engines: Mapping[str, Engine]) -> dict[str, Callable[..., object]]:
    """Return the functions of the tools."""
    return {name: one.executable for name, one in engines.items() if one.is_tool}


def server_settings(engines: Mapping[str, Engine]) -> dict[str, Any]:
    """Return the keywords of a Server with these engines.

    Raises:
        ConfigError: two engines set one setting to different values.
    """
    whole: dict[str, Any] = {"generator": None}
    owner: dict[str, str] = {}
    for engine in engines.values():
        for name, value in engine.settings().items():
            if name in owner and name != "replicas" and whole[name] != value:
                raise ConfigError(
                    f"engines {owner[name]!r} and {engine.name!r} both set {name}: leave one out"
                )
            known = whole.get(name) if name == "replicas" else None
            whole[name] = ",".join(dict.fromkeys(f"{known},{value}".split(","))) if known else value
            owner[name] = engine.name
    tools = sum(engine.instances for engine in engines.values() if engine.is_tool)
    own = [engine.executable for engine in engines.values() if engine.is_own]
    return {
        **({"tool_threads": tools} if tools else {}),
        **whole,
        **({"engines": own} if own else {}),
    }
