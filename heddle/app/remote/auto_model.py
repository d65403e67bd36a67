"""`--model auto`: a model that a server on this machine runs already."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from heddle.app.models.remote_models import run_apart
from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of
from heddle.engines.remote.address import Address
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.probe import OfferedModel, offered_models, shown_name
from heddle.engines.remote.problem import RemoteProblem

AUTO: Final = "auto"
LOOK_S_MAX: Final = 0.5
WRITES_NO_TEXT: Final = ("embed", "rerank", "bge-")  # in the names of models that can't answer

log = logging.getLogger(__name__)


class LocalServer(NamedTuple):
    """A server that may run on this machine, at its usual port."""

    name: str
    url: str


LOCAL_SERVERS: Final = (
    LocalServer("Ollama", "http://127.0.0.1:11434/v1"),
    LocalServer("llama.cpp", "http://127.0.0.1:8080/v1"),
    LocalServer("vLLM", "http://127.0.0.1:8000/v1"),
)


class Found(NamedTuple):
    """A configuration without `auto`, and what was taken, in words."""

    config: ServerConfig
    words: str


def without_auto(config: ServerConfig, servers: Sequence[LocalServer] = LOCAL_SERVERS) -> Found:
    """Return a configuration whose generator is the first model found on this machine.

    Without one it is the default generator. A configuration that doesn't say `auto` stays as it
    is, and no server is looked for.
    """
    if config.generator != AUTO:
        return Found(config, "")
    listed = run_apart(lambda: _look(servers))
    for server, models in zip(servers, listed, strict=True):
        able = [model for model in models if not _writes_no_text(model.name)]
        if able:
            name = able[0].name
            more = f", the first of {len(able)}" if len(able) > 1 else ""
            words = f"took {server.name} at {server.url}, model {shown_name(name)!r}{more}"
            return Found(replace(config, generator=f"{server.url}#{name}"), words)
    default = str(fields_of(ServerConfig)["generator"].default)
    names = ", ".join(f"{server.name} ({server.url})" for server in servers)
    words = f"found no model on this machine, at {names}: took {default}"
    return Found(replace(config, generator=default), words)


async def _look(servers: Sequence[LocalServer]) -> Sequence[tuple[OfferedModel, ...]]:
    return await asyncio.gather(*(_models(server) for server in servers))


async def _models(server: LocalServer) -> tuple[OfferedModel, ...]:
    client = HttpClient(Address.of(server.url, "--model"))
    try:
        return await offered_models(client, LOOK_S_MAX) or ()
    except RemoteProblem as problem:
        log.debug("no model of %s: %s", server.name, problem.words)
        return ()
    finally:
        client.close()


def _writes_no_text(name: str) -> bool:
    return any(part in name.lower() for part in WRITES_NO_TEXT)
