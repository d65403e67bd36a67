"""A query engine of LlamaIndex whose queries are known to the engine as runs."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Self

from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.callbacks.base import EventContext
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle

from heddle.adapters.llamaindex.parts import RETRIEVER, SYNTHESIZER, Parts
from heddle.adapters.llamaindex.streams import aplaced, placed
from heddle.adapters.run import Place, Run, RunReceipt, at, current_place
from heddle.adapters.wrapping import Wrapping

End = Callable[[BaseException | None], None]
dispatcher: Final = get_dispatcher(__name__)


class WrappedQueryEngine(RetrieverQueryEngine):
    """What `heddle.wrap` makes of a query engine; LlamaIndex goes on as the driver.

    `query` and `aquery` are one run each, or part of the run that they are called within. The run
    of a response that is streamed ends with its stream.
    """

    _parts: Parts
    _wrapping: Wrapping

    @classmethod
    def of(cls, program: RetrieverQueryEngine, parts: Parts, wrapping: Wrapping) -> Self:
        """Return a wrapped query engine.

        Args:
            program: the query engine, which stays as it is.
            parts: what runs in it.
            wrapping: begins and ends its runs.
        """
        wrapped = cls.__new__(cls)
        wrapped.__dict__.update(vars(program))
        wrapped._parts, wrapped._wrapping = parts, wrapping
        wrapped._retriever = parts.retriever
        wrapped._response_synthesizer = parts.synthesizer
        wrapped._node_postprocessors = list(parts.postprocessors.values())
        return wrapped

    @property
    def receipts(self) -> deque[RunReceipt]:
        """The receipts of the last 64 runs, the newest last."""
        return self._wrapping.receipts

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Find nodes, and have the postprocessors work at them; each at its place."""
        with self._running():
            with self._course(RETRIEVER):
                nodes = self._retriever.retrieve(query_bundle)
            for name, one in self._parts.postprocessors.items():
                with self._course(name):
                    nodes = one.postprocess_nodes(nodes, query_bundle=query_bundle)
        return nodes

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Find nodes, as `retrieve` does."""
        with self._running():
            with self._course(RETRIEVER):
                nodes = await self._retriever.aretrieve(query_bundle)
            for name, one in self._parts.postprocessors.items():
                with self._course(name):
                    nodes = await one.apostprocess_nodes(nodes, query_bundle=query_bundle)
        return nodes

    @dispatcher.span
    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self._running() as end, self._event(query_bundle) as event:
            nodes = self.retrieve(query_bundle)
            with self._course(SYNTHESIZER) as place:
                response = self._response_synthesizer.synthesize(query=query_bundle, nodes=nodes)
            if isinstance(response, StreamingResponse):
                response.response_gen = placed(response.response_gen, place, end.later())
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self._running() as end, self._event(query_bundle) as event:
            nodes = await self.aretrieve(query_bundle)
            with self._course(SYNTHESIZER) as place:
                response = await self._response_synthesizer.asynthesize(
                    query=query_bundle, nodes=nodes
                )
            if isinstance(response, AsyncStreamingResponse):
                response.response_gen = aplaced(response.response_gen, place, end.later())
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _event(self, query_bundle: QueryBundle) -> AbstractContextManager[EventContext]:
        """Return LlamaIndex's event of a query, under which callbacks see those of its parts."""
        asked = {EventPayload.QUERY_STR: query_bundle.query_str}
        return self.callback_manager.event(CBEventType.QUERY, payload=asked)

    @contextmanager
    def _running(self) -> Iterator["_End"]:
        """Begin a run, or go on with the one that this is called within, and end it."""
        outer = current_place()
        run = self._wrapping.begin() if outer is None else outer.run
        end = _End(self._wrapping, run, is_own=outer is None)
        depth = 0 if outer is None else outer.depth
        try:
            with at(Place(run, depth=depth)):
                yield end
        except BaseException as error:
            end(error)
            raise
        if not end.is_later:
            end(None)

    @contextmanager
    def _course(self, name: str) -> Iterator[Place]:
        """Let a part's calls be made at its place, and count it where it makes none."""
        outer = current_place()
        assert outer is not None, "a part runs within a run"
        place = Place(outer.run, name, self._wrapping.depths[name] + outer.depth)
        begun_s = outer.run.age_s
        try:
            with at(place):
                yield place
        finally:
            if name not in self._parts.primitives:
                outer.run.add_tool(name, outer.run.age_s - begun_s)


class _End:
    """The end of a run, which a stream may put off.

    Args:
        wrapping: takes the end in.
        run: that ends.
        is_own: whether the run began with the query.

    Mutates: `is_later`, where a stream ends the run.
    """

    def __init__(self, wrapping: Wrapping, run: Run, *, is_own: bool) -> None:
        self._wrapping, self._run, self._is_own = wrapping, run, is_own
        self.is_later = False

    def __call__(self, error: BaseException | None) -> None:
        """End the run; one that this query is only a part of goes on."""
        if self._is_own:
            self._wrapping.end(self._run, error)

    def later(self) -> End:
        """Return what ends the run when its stream ends."""
        self.is_later = True
        return self
