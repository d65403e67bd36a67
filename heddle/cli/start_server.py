"""The server of a command."""

import sys
from typing import TYPE_CHECKING

from heddle.app.server_config import ServerConfig
from heddle.cli.progress import status

if TYPE_CHECKING:
    from heddle.app.server import Server


def start_server(config: ServerConfig) -> "Server":
    """Start a server, and show on a terminal that it loads; say where text goes, if anywhere.

    Raises:
        ConfigError, InputError: the models or the corpus can't be used.
    """
    # Late: a command that asks a running server needs no engine's code.
    from heddle.app.server import Server

    with status("loading the models"):
        server = Server.from_config(config)
    for line in server.plan.remote.destinations():
        print(line, file=sys.stderr)
    return server
