"""The servers that clients are tried on: one that writes, and one that quotes."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn

from benchmarks.client_calls.call import Servers
from heddle.app.server import Server
from heddle.server.http import create_app
from heddle.workflow.presets import preset

INLINE: Final[Mapping[str, Any]] = {"engine_host": "inline", "dtype": "float32"}
KV_BYTES: Final = 32 << 20
START_S: Final = 60.0


@contextmanager
def http_server(app: Any) -> Iterator[str]:
    """Serve an application on a free port of this machine; yield its address."""
    has_started = threading.Event()

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            has_started.set()

    settings = uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none")
    http = Announced(settings)
    thread = threading.Thread(target=http.run)
    thread.start()
    try:
        assert has_started.wait(START_S), "the HTTP server did not start"
        port = http.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        http.should_exit = True
        thread.join()


@contextmanager
def served(writing: Server, corpus: Path) -> Iterator[Servers]:
    """Serve a server that writes, and another one that quotes from a corpus."""
    with ExitStack() as stack:
        quoting = stack.enter_context(Server(index=corpus, **INLINE))
        urls = [
            stack.enter_context(http_server(create_app(server, _workflows(*names))))
            for server, names in ((writing, ("oneshot",)), (quoting, ("quote",)))
        ]
        dims = len(writing.embed(["a"]).values[0])
        assert writing.generator is not None, "a server that writes has a model"
        llm, embedder = writing.generator.name, writing.embedder_name
        yield Servers(f"{urls[0]}/v1", f"{urls[1]}/v1", llm, embedder, dims)


def _workflows(*names: str) -> dict[str, Any]:
    return {name: preset(name).compile() for name in names}
