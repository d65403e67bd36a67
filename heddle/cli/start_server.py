"""The server that a command's options describe."""

import argparse
from pathlib import Path

from heddle.app.server import Server
from heddle.cli.arguments import server_settings
from heddle.cli.progress import status


def start_server(options: argparse.Namespace, index: Path | None, **settings: bool) -> Server:
    """Start a server with the models of `add_models`, and show on a terminal that it loads.

    `settings` are more of a server's, by name.

    Raises:
        ConfigError, InputError: the models or the corpus can't be used.
    """
    with status("loading the models"):
        return Server(options.model, index, **server_settings(options), **settings)
