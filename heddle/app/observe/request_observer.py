"""Who watches requests from outside: told of each when it is submitted, and of its events."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol

from heddle.core.errors import HeddleError
from heddle.core.results import Vectors
from heddle.runtime.events import RequestEvent, RequestFailed
from heddle.runtime.request import EventSink


class RequestObserver(Protocol):
    """An exporter of traces, or the like. Its methods must not block and must not raise."""

    def begun(self, workflow: str) -> EventSink:
        """Hear that a request is submitted, on its caller's thread; return who hears its events."""
        ...

    def embedding_begun(self, model: str) -> Callable[[Future[Vectors]], None]:
        """Hear of an embedding by itself; return who hears its end."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """What has become of its spans, by outcome."""
        ...


def unheard(_event: RequestEvent) -> None:
    """Hear nothing."""


def heard_before(heard: EventSink, sink: EventSink) -> EventSink:
    """Return a sink whose events are heard before they go on."""
    if heard is unheard:
        return sink

    def push(event: RequestEvent) -> None:
        heard(event)
        sink(event)

    return push


@contextmanager
def observed(observer: RequestObserver | None, workflow: str) -> Iterator[EventSink]:
    """Yield who hears a request's events; a request that isn't admitted has failed."""
    sink = unheard if observer is None else observer.begun(workflow)
    try:
        yield sink
    except HeddleError as error:
        sink(RequestFailed(error))
        raise


def observed_embedding(
    observer: RequestObserver | None, model: str, submit: Callable[[], Future[Vectors]]
) -> Future[Vectors]:
    """Submit texts and return their future vectors, whose end is heard."""
    if observer is None:
        return submit()
    ended = observer.embedding_begun(model)
    try:
        answer = submit()
    except HeddleError as error:
        refused: Future[Vectors] = Future()
        refused.set_exception(error)
        ended(refused)
        raise
    answer.add_done_callback(ended)
    return answer
