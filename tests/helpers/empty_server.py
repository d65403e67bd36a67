"""A server of a corpus that may hold nothing to search, as indexing starts one."""

from pathlib import Path

from heddle.app.server import Server
from heddle.app.server_config import ServerConfig


def serve_empty(directory: Path, **settings: object) -> Server:
    """Start one without a model that writes."""
    config = ServerConfig.of(None, directory, settings)
    return Server.from_config(config, needs_vectors=False)
