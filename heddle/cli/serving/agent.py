"""`heddle agent`: lets a server with the cluster's secret run lanes on this machine."""

import argparse
import platform
import signal
import threading
from pathlib import Path
from types import FrameType

from heddle.cli.command_parser import CommandParser
from heddle.core.errors import ConfigError
from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.agent import Agent
from heddle.hosts.nodes.secret import read_secret, write_secret

LISTEN = "127.0.0.1:7070"


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=LISTEN,
        help=f"where servers reach it; port 0 = any that is free; default: {LISTEN}",
    )
    parser.add_argument(
        "--cluster-secret-file",
        type=Path,
        metavar="FILE",
        help="the cluster's secret; every server that has it may run programs here",
    )
    parser.add_argument(
        "--name",
        default=platform.node(),
        help="name of the node in messages and plans; default: the host's",
    )
    parser.add_argument(
        "--new-secret", type=Path, metavar="FILE", help="make a secret, write it there, and leave"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C (exit 130) or SIGTERM (exit 0); the lanes end with the agent."""
    if options.new_secret is not None:
        write_secret(options.new_secret)
        print(f"{options.new_secret} holds a new secret: copy it to each node, for you alone")
        return 0
    if options.cluster_secret_file is None:
        raise ConfigError(
            "an agent needs the cluster's secret: --cluster-secret-file FILE; "
            "`heddle agent --new-secret FILE` makes one"
        )
    secret = read_secret(options.cluster_secret_file)
    is_over = threading.Event()

    def leave(_signal: int, _frame: FrameType | None) -> None:
        is_over.set()

    with Agent(options.name, Address.of(options.listen, "--listen"), secret) as agent:
        before = signal.signal(signal.SIGTERM, leave)
        try:
            print(
                f"agent of node {options.name} listens at {agent.address} (Ctrl-C stops)",
                flush=True,
            )
            is_over.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
    return 0
