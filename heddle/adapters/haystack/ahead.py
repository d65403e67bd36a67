"""Searches that a run knows from its begin: they begin with it, however late the driver comes.

Haystack's `run` carries out one component after the other. A search whose query is among the inputs
of the run needs none of the others, and neither does one for a vector of such a text: the engine
embeds texts itself. All of these always run, so none is begun for nothing.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from haystack import Pipeline

from heddle.adapters.haystack.part_kind import PartKind
from heddle.adapters.haystack.parts import Part

THREADS_MAX: Final = 64  # they wait for engines; what finds none free runs when it is its turn
AT_ONCE_MIN: Final = 2  # a single one is begun no sooner than in its turn
_THREADS: Final = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="heddle-search")


def known_inputs(
    pipeline: Pipeline, parts: Mapping[str, Part], data: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the inputs of each search and text embedder that are known before the run, by name.

    A retriever by vector has its query there, in the place of the vector.

    Args:
        pipeline: the run's.
        parts: its components that are known.
        data: the inputs of the run, by component.
    """
    found = {}
    for name, part in parts.items():
        own, senders = data.get(name, {}), _senders(pipeline, name)
        if not part.primitives or not isinstance(own, Mapping):
            continue
        if part.kind in (PartKind.RETRIEVER, PartKind.TEXT_EMBEDDER) and not senders and own:
            found[name] = dict(own)
        elif part.kind is PartKind.VECTOR_RETRIEVER and part.stand_in is not None:
            text = _text(pipeline, parts, senders, data)
            if text is not None:
                found[name] = {"query": text, **own}
    return found if len(found) >= AT_ONCE_MIN else {}


class Ahead:
    """What has begun with a run, until its component's turn.

    Mutates: keeps a future for each component, until it is taken.
    """

    def __init__(self) -> None:
        self._begun: dict[str, tuple[dict[str, Any], Future[Any]]] = {}

    def begin(self, name: str, inputs: dict[str, Any], work: Callable[[], Any]) -> None:
        """Begin a component's work in a thread."""
        self._begun[name] = inputs, _THREADS.submit(work)

    def taken(self, name: str, inputs: Mapping[str, Any]) -> Future[Any] | None:
        """Return what has begun for a component; None = nothing, or it has other inputs now."""
        if name not in self._begun:
            return None
        known, future = self._begun.pop(name)
        has_begun = not future.cancel()
        return future if has_begun and _asked(inputs) == _asked(known) else None

    def close(self) -> None:
        """Leave what has not been taken."""
        for _, future in self._begun.values():
            future.cancel()
        self._begun.clear()


class Begun:
    """A component's work that is under way, as a component.

    Args:
        component: the component.
        work: its outputs, once they are there.
    """

    def __init__(self, component: Any, work: Future[Any]) -> None:
        self.__haystack_input__ = component.__haystack_input__
        self.__haystack_output__ = component.__haystack_output__
        self._work = work

    def run(self, **inputs: Any) -> Any:
        """Wait for the outputs of these inputs."""
        return self._work.result()


def _senders(pipeline: Pipeline, name: str) -> set[str]:
    return set(pipeline.graph.predecessors(name))


def _text(
    pipeline: Pipeline, parts: Mapping[str, Part], senders: set[str], data: Mapping[str, Any]
) -> str | None:
    """Return the text that a retriever by vector searches for; None = it isn't known yet."""
    if len(senders) != 1:
        return None
    [sender] = senders
    is_embedder = sender in parts and parts[sender].kind is PartKind.TEXT_EMBEDDER
    text = data.get(sender, {}).get("text") if is_embedder else None
    return text if isinstance(text, str) and not _senders(pipeline, sender) else None


def _asked(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if value is not None}
