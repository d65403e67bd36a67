"""An ASGI application on a free port of this machine, as a contender's whole process."""

import socket
from typing import Any

import uvicorn

from benchmarks.contenders.cpu_clock import answer_cpu_questions


def serve_app(app: Any, **settings: Any) -> None:
    """Print the port and serve until the process is ended; `settings` are uvicorn's."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    print(listener.getsockname()[1], flush=True)
    answer_cpu_questions()
    config = uvicorn.Config(app, log_level="warning", **settings)
    uvicorn.Server(config).run(sockets=[listener])
