"""Engines in this process, for commands that have no option for it: lanes take seconds to load."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from heddle.app.server import Server
from heddle.app.server_config import ServerConfig


@contextmanager
def inline_engines() -> Iterator[None]:
    """Let servers that are started meanwhile from a configuration have no lanes."""
    start = Server.from_config

    def start_inline(config: ServerConfig, **how: object) -> Server:
        return start(replace(config, engine_host="inline"), **how)

    with mock.patch.object(Server, "from_config", start_inline):
        yield
