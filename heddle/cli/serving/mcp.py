"""`heddle mcp DIR`"""

import argparse
import asyncio
import socket
import sys
from ipaddress import ip_address
from typing import Final

from heddle.app.server_config import ServerConfig
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import (
    add_config,
    add_index,
    corpus_place,
    operation_config,
    server_config,
)
from heddle.cli.start_server import start_server
from heddle.cli.workflow_source import WORKFLOW_HELP, load_workflow
from heddle.core.errors import ConfigError, InputError
from heddle.corpus.place import CorpusPlace
from heddle.corpus.store import CorpusStore
from heddle.server.http_config import PORT_MAX
from heddle.server.operation.listener import bound_socket, listen
from heddle.server.operation.operation_config import OperationConfig
from heddle.workflow.workflow import Workflow

ADDRESS_FORM: Final = "HOST:PORT"
FLAGS: Final = ("--http", "--http")


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add_index(parser)
    parser.add_argument(
        "--http",
        type=_address,
        metavar=ADDRESS_FORM,
        help="serve over HTTP at this address of this machine, such as 127.0.0.1:8322; default: "
        "over stdin and stdout",
    )
    parser.add_argument(
        "--workflow",
        metavar="NAME",
        help=f"{WORKFLOW_HELP}, for the tool ask; default: quote, or oneshot with a model that "
        "writes",
    )
    parser.add_argument(
        "--tenant", default="", metavar="NAME", help="search this tenant's documents, too"
    )
    add_config(parser, OperationConfig, only=("log_format",))
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until the client closes stdin, or over HTTP until Ctrl-C or SIGTERM.

    Raises:
        ConfigError, InputError: the corpus, a setting or the address can't be used.
    """
    try:
        # Late: an extra, which every other command does without.
        import mcp  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'this needs the package {error.name}: pip install "heddle[mcp]"'
        ) from error
    operation_config(options)
    config = server_config(options, needs=("index",))
    place = corpus_place(config)
    with CorpusStore.open(place):
        pass  # one that can't be read is refused here, and not in the first call
    workflow = _workflow(options.workflow, config)
    if options.http is None:
        asyncio.run(_serve(config, place, workflow, options.tenant, None))
        return 0
    host, port = options.http
    with bound_socket(host, port, FLAGS) as listener:
        _check_loopback(host, listener)
        listen(listener, host, port, FLAGS)
        asyncio.run(_serve(config, place, workflow, options.tenant, listener))
    return 0


async def _serve(
    config: ServerConfig,
    place: CorpusPlace,
    workflow: Workflow | None,
    tenant: str,
    listener: socket.socket | None,
) -> None:
    from heddle.server.mcp.corpus_tools import CorpusTools
    from heddle.server.mcp.protocol import mcp_server
    from heddle.server.mcp.server_on_demand import ServersOnDemand
    from heddle.server.mcp.transports import PATH, serve_http, serve_stdio

    servers = ServersOnDemand(config, start_server)
    server = mcp_server(CorpusTools(place, servers, workflow, tenant))
    try:
        if listener is None:
            await serve_stdio(server, servers.close)
            return
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{port}{PATH}"
        print(f"serving {place} at {url} (Ctrl-C stops)", file=sys.stderr, flush=True)
        await serve_http(server, listener)
    finally:
        await servers.close()


def _workflow(name: str | None, config: ServerConfig) -> Workflow | None:
    """Return the workflow that answers; None = the server has no model that does."""
    if config.generator is None:
        if name is not None:
            raise ConfigError("--workflow answers questions, and --model is none: leave one out")
        return None
    return load_workflow(name or config.default_workflow)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no address: write {ADDRESS_FORM}, such as 127.0.0.1:8322"
        )
    return host, int(port)


def _check_loopback(host: str, listener: socket.socket) -> None:
    """Refuse an address that other machines may reach: this server asks no client for a key.

    The address that was bound counts: a name may stand for any.
    """
    address = listener.getsockname()[0]
    if not ip_address(address).is_loopback:
        raise InputError(
            f"--http {host}: other machines may reach {address}, and `heddle mcp` asks for no key: "
            "name 127.0.0.1, or serve with `heddle serve`, which does"
        )
