"""The trace that a request belongs to, as its caller has named it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

HEADERS: Final = ("traceparent", "tracestate")
_PROPAGATOR: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class TraceParent:
    """The span above a request's own, and the id by which the log names the request.

    Args:
        context: holds the caller's span; an empty one begins a trace.
        request_id: returns that id; "" = there is none. It is called where the request is
            submitted.
    """

    context: Context
    request_id: Callable[[], str] = str

    @classmethod
    def of(cls, headers: Mapping[str, str], request_id: Callable[[], str] = str) -> "TraceParent":
        """Read `traceparent` and the rest of W3C's Trace Context; headers in error say nothing."""
        carrier = {name: headers[name] for name in HEADERS if name in headers}
        # With a context given, no span of this thread can come in between.
        return cls(_PROPAGATOR.extract(carrier, context=Context()), request_id)


_current: ContextVar[TraceParent | None] = ContextVar("trace_parent", default=None)


def current_parent() -> TraceParent:
    """Return the parent of what is submitted here; without one a trace begins."""
    return _current.get() or TraceParent(Context())


@contextmanager
def under(parent: TraceParent) -> Iterator[None]:
    """Make it the parent of what is submitted in this block, also by threads that it calls."""
    token = _current.set(parent)
    try:
        yield
    finally:
        _current.reset(token)
