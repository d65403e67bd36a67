"""`heddle serve DIR`"""

import argparse
import asyncio
import os
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from shlex import quote
from ssl import SSLContext
from types import FrameType
from typing import Any, NoReturn

from heddle.app.server import Server
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import (
    add_config,
    add_index,
    all_choices,
    corpus_place,
    http_config,
    operation_config,
    server_config,
)
from heddle.cli.output.config_lines import config_lines
from heddle.cli.running.advert import ServerAdvert, advertised
from heddle.cli.serving.open_files import allow_open_files
from heddle.cli.serving.tracing import check_tracing, tracing
from heddle.cli.start_server import start_server
from heddle.cli.workflow_source import load_connectors, load_workflow
from heddle.core.errors import ConfigError
from heddle.corpus.place import CorpusPlace
from heddle.hosts.memory.started import keep_started
from heddle.server.drain import CLOSING_S, Drain
from heddle.server.http_config import HttpConfig
from heddle.server.keys.key_file import read_keys
from heddle.server.keys.key_ring import KeyRing
from heddle.server.operation.listener import bound_socket, listen
from heddle.server.operation.operation_config import OperationConfig
from heddle.server.request_ids import request_ids_in_log
from heddle.server.tls import certificate_digest, tls_context
from heddle.workflow.connectors import Connectors
from heddle.workflow.ready_made import READY_MADE
from heddle.workflow.workflow import Workflow

EXIT_CUT = 3  # requests were cut, because they took longer than --grace
EXIT_LANE = 4  # a lane was given up


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add_index(parser)
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting with its value and its source, in the form of heddle.toml, and "
        "leave",
    )
    add_config(parser, HttpConfig)
    add_config(parser, OperationConfig)
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C (exit 130) or SIGTERM (exit 0, or 3 where requests were cut)."""
    if options.print_config:
        print("\n".join(config_lines(all_choices(options), os.environ)))
        return 0
    try:
        # Late: an extra, which every other command does without.
        import uvicorn

        from heddle.server.bounded_connection import (
            HEAD_BYTES_MAX,
            WAITING_MAX,
            BoundedConnection,
        )
        from heddle.server.changes.change_threads import ChangeThreads
        from heddle.server.draining_server import DrainingServer
        from heddle.server.http import create_app
        from heddle.server.stores.file_indexing import FileIndexing
        from heddle.server.tls_connection import TlsConnection
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'serving needs the package {error.name}: pip install "heddle[server]"'
        ) from error
    operation = operation_config(options)
    check_tracing(operation)
    front = http_config(options)
    config = server_config(options, needs=("index",))
    workflows = _workflows(front.workflows, load_connectors(sorted(front.connectors)))
    keys = _keys(front)
    tls = _tls(front)
    drain = Drain(front.grace_s)
    allow_open_files(front.limit_concurrency + WAITING_MAX)
    # The port is taken before the models load, and opened after: no client waits for them.
    with (
        _bound_socket(front) as listener,
        _sigterm_unwinds(drain),
        start_server(config) as server,
        tracing(operation, server) as in_traces,
        ChangeThreads() as changes,
        FileIndexing(server) if front.allow_changes else nullcontext() as file_indexing,
        request_ids_in_log(),
    ):
        listen(listener, front.host, front.port)
        host, port = listener.getsockname()[:2]
        advert = ServerAdvert.of(
            config,
            host,
            port,
            needs_key=keys is not None,
            certificate="" if tls is None else certificate_digest(Path(str(front.tls_cert))),
        )
        connection: Any = BoundedConnection if tls is None else partial(TlsConnection, tls)
        app = create_app(
            server,
            workflows,
            takes_changes=front.allow_changes,
            requests_max=front.limit_concurrency,
            allowed_hosts=front.allowed_hosts,
            instance="" if advert is None else advert.instance,
            drain=drain,
            keys=keys,
            inline_sources=front.inline_sources,
            file_indexing=file_indexing,
            changes=changes,
        )
        settings = uvicorn.Config(
            in_traces(app),
            log_config=None,  # its lines are ours
            log_level="warning",
            lifespan="off",
            http=connection,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            timeout_graceful_shutdown=CLOSING_S,  # the drain is over before
        )
        http = DrainingServer(settings, drain, partial(_given_up, server))

        async def greet_and_serve() -> None:
            # From here on Ctrl-C is asyncio's; before, a coroutine could be left without an await.
            print(_greeting(config.place, listener, front), flush=True)
            await http.serve(sockets=[listener])

        keep_started()
        with advertised(corpus_place(config).work, advert), asyncio.Runner() as runner:
            runner.run(greet_and_serve())
    return EXIT_LANE if http.ended_by else 0


def _given_up(server: Server) -> str:
    """Return which lane was given up and why; "" = none."""
    lanes = server.given_up().items()
    return "; ".join(f"lane {name} was given up: {reason}" for name, reason in lanes)


def _workflows(files: Iterable[str], connectors: Connectors) -> dict[str, Workflow]:
    """Return the ready-made workflows and those of the user's files, by name.

    One whose connector isn't there is left out: clients that ask for it hear what is missing.
    """
    workflows: dict[str, Workflow] = {}
    for name in READY_MADE:
        with suppress(ConfigError):
            workflows[name] = load_workflow(name, connectors=connectors)
    for file in sorted(files):
        name = file.rpartition(":")[2]
        if name in workflows:
            raise ConfigError(f"--workflow {file}: the name {name!r} is taken; rename the variable")
        workflows[name] = load_workflow(file)
    return workflows


def _keys(front: HttpConfig) -> KeyRing | None:
    """Return the keys that clients must have; None = they need none."""
    if front.api_key_file is None:
        return None
    return KeyRing(read_keys(Path(front.api_key_file)))


def _tls(front: HttpConfig) -> SSLContext | None:
    """Return how connections are encrypted; None = they aren't."""
    if front.tls_cert is None and front.tls_key is None:
        return None
    if front.tls_cert is None or front.tls_key is None:
        given, missing = ("cert", "key") if front.tls_key is None else ("key", "cert")
        raise ConfigError(f"--tls-{given} needs --tls-{missing}: give both, or neither")
    return tls_context(Path(front.tls_cert), Path(front.tls_key))


def _bound_socket(front: HttpConfig) -> socket.socket:
    """Return a socket that is bound, and doesn't listen yet.

    Raises:
        ConfigError: the address or the port can't be used, or is open to others without keys.
    """
    listener = bound_socket(front.host, front.port)
    try:
        _check_exposure(front, listener.getsockname()[0])
    except ConfigError:
        listener.close()
        raise
    return listener


def _check_exposure(front: HttpConfig, address: str) -> None:
    """Refuse an address that other machines may reach, unless there are keys or the user insists.

    The address that was bound counts: a name may stand for any.
    """
    if ip_address(address).is_loopback or front.api_key_file is not None or front.insecure:
        return
    raise ConfigError(
        f"--host {front.host}: other machines may reach {address}, and every client would be "
        "served: give clients keys with --api-key-file FILE (heddle keys new makes one), or serve "
        "all of them with --insecure"
    )


def _greeting(place: CorpusPlace | None, listener: socket.socket, front: HttpConfig) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "http" if front.tls_cert is None else "https"
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    body = '{"question": "your question", "stream": true}'
    ask = f"{url}/v1/ask"
    # One's own certificate is no known authority's; curl trusts any that it is given.
    trusted = f"--cacert {quote(str(front.tls_cert))} " if front.tls_cert is not None else ""
    key = '-H "Authorization: Bearer $HEDDLE_API_KEY" ' if front.api_key_file else ""
    return (
        f"serving {place} at {url} (Ctrl-C stops)\n"
        f"ask it:  curl -N {trusted}{ask} {key}-H 'Content-Type: application/json' -d '{body}'\n"
        f"clients of OpenAI's API: base URL {url}/v1, model corpus"
    )


@contextmanager
def _sigterm_unwinds(drain: Drain) -> Iterator[None]:
    """Turn SIGTERM into an orderly end: lanes, corpus and port are closed on the way out.

    A terminal that closes sends SIGHUP, which ends a process at once: it means the same, unless
    `nohup` has it ignored.
    """

    def leave(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(EXIT_CUT if drain.cut else 0)

    def hang_up(_signal: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGTERM)  # its handler may be asyncio's now

    before = signal.signal(signal.SIGTERM, leave)
    is_default = signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    if is_default:
        signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        if is_default:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, before)
