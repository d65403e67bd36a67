"""The server of a command."""

import sys

from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.cli.progress import status


def start_server(config: ServerConfig) -> Server:
    """Start a server, and show on a terminal that it loads; say where text goes, if anywhere.

    Raises:
        ConfigError, InputError: the models or the corpus can't be used.
    """
    with status("loading the models"):
        server = Server.from_config(config)
    for line in server.plan.remote.destinations():
        print(line, file=sys.stderr)
    return server
