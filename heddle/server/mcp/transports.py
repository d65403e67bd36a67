"""How clients reach the MCP server: over its standard streams, or over HTTP on this machine."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Final, NoReturn

import uvicorn
from mcp.server.lowlevel import Server as McpServer
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from heddle.server.bounded_connection import HEAD_BYTES_MAX, BoundedConnection
from heddle.server.drain import CLOSING_S

PATH: Final = "/mcp"
SESSIONS_MAX: Final = 256
SESSION_IDLE_S: Final = 1800.0
EXIT_STOPPED: Final = 130  # Ctrl-C


async def serve_stdio(server: McpServer[Any], close: Callable[[], Awaitable[None]]) -> None:
    """Serve the client at the other end of stdin and stdout until it closes stdin.

    While it runs, stdout carries the protocol alone: what is printed goes to stderr.

    Args:
        server: the MCP server.
        close: closes what stands behind it. It is called at a signal: the thread that waits for
            the client's next line can't be interrupted, so the process ends there and then.
    """
    loop = asyncio.get_running_loop()
    endings: set[asyncio.Task[None]] = set()

    async def end(code: int) -> None:
        await close()
        sys.stderr.flush()
        os._exit(code)

    def begin_end(code: int) -> None:
        endings.add(loop.create_task(end(code)))

    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, EXIT_STOPPED)):
        loop.add_signal_handler(number, begin_end, code)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def serve_http(server: McpServer[Any], listener: socket.socket) -> None:
    """Serve clients over streamable HTTP until a signal comes.

    Only requests are answered that call the server by an address or a name of this machine, from
    no web page of another: a page that resolves its own name to 127.0.0.1 gets nothing.

    Args:
        server: the MCP server.
        listener: listens on a loopback address.
    """
    host = str(listener.getsockname()[0])
    shown = f"[{host}]" if ":" in host else host
    names = [f"{name}:*" for name in dict.fromkeys((shown, "localhost", "127.0.0.1", "[::1]"))]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_sessions=SESSIONS_MAX,
        session_idle_timeout=SESSION_IDLE_S,
        transport_security=TransportSecuritySettings(
            allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
        ),
    )
    settings = uvicorn.Config(
        app,
        log_config=None,  # its lines are ours
        log_level="warning",
        lifespan="on",
        http=BoundedConnection,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_graceful_shutdown=CLOSING_S,
    )
    # uvicorn raises the signal that has ended it once more, for the handler before its own.
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        await uvicorn.Server(settings).serve(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)
