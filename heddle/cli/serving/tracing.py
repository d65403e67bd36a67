"""The traces of a server, where its operator wants them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from heddle import __version__
from heddle.app.models.remote_name import is_remote
from heddle.app.server import Server
from heddle.core.errors import ConfigError
from heddle.server.operation.operation_config import OperationConfig

if TYPE_CHECKING:  # extras, which other commands do without
    from starlette.types import ASGIApp

    from heddle.exporters.otel.spans import Models


def check_tracing(operation: OperationConfig) -> None:
    """Refuse to trace without the packages that do it, before the models load.

    Raises:
        ConfigError: one is missing.
    """
    if not operation.otel:
        return
    try:
        import heddle.exporters.otel.otlp  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'--otel needs the package {error.name}: pip install "heddle[otel]"'
        ) from error


@contextmanager
def tracing(operation: OperationConfig, server: Server) -> Iterator["Callable[[ASGIApp], ASGIApp]"]:
    """Yield what makes an application take part in traces; export the last ones at the end.

    Mutates: the server's observer, where traces are wanted.
    """
    if not operation.otel:
        yield lambda app: app
        return
    from heddle.exporters.otel.otlp import otlp_tracer
    from heddle.server.operation.trace_parents import TraceParents

    tracer = otlp_tracer(_models(server), __version__)
    server.observer = tracer
    try:
        yield TraceParents
    finally:
        server.observer = None
        tracer.close()


def _models(server: Server) -> "Models":
    from heddle.exporters.otel.spans import Models

    config, plan = server.config, server.plan
    return Models(
        generator=_name(config.llm),
        embedder=server.embedder_name or _name(config.embedder),
        reader=next((reader.facts.name for reader in plan.readers), ""),
        corpus="" if config.place is None else config.place.work.resolve().name,
    )


def _name(model: str | Path | None) -> str:
    """Return a model's name without the address or the folders before it."""
    if model is None:
        return ""
    text = str(model)
    return text.rpartition("#")[2] if is_remote(text) else Path(text).name
