"""A Haystack pipeline whose runs are known to the engine as runs."""

from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Self

from haystack import Pipeline

from heddle.adapters.engine import Engine
from heddle.adapters.haystack.parts import Part
from heddle.adapters.haystack.running_pipeline import RunningPipeline
from heddle.adapters.run import RunReceipt, current_place
from heddle.adapters.wrapping import Wrapping


class WrappedPipeline(Pipeline):
    """What `heddle.wrap` makes of a pipeline; the two share their components and connections.

    `run`, `run_async`, `run_async_generator` and `stream` work as Haystack's. Each is one run, or
    part of the run that it is called within. The searches that a `run` is given begin with it.
    """

    __slots__ = ("_engines", "_parts", "_wrapping")

    _engines: Collection[Engine]
    _parts: Mapping[str, Part]
    _wrapping: Wrapping

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        parts: Mapping[str, Part],
        wrapping: Wrapping,
        engines: Collection[Engine],
    ) -> Self:
        """Return a wrapped pipeline.

        Args:
            pipeline: the pipeline.
            parts: its components that are known.
            wrapping: begins and ends its runs.
            engines: those that its components call.
        """
        wrapped = cls.__new__(cls)
        wrapped.__dict__ = pipeline.__dict__  # type: ignore[misc, unused-ignore]
        wrapped._parts, wrapped._wrapping, wrapped._engines = parts, wrapping, engines
        return wrapped

    @property
    def receipts(self) -> deque[RunReceipt]:
        """The receipts of the last 64 runs, the newest last."""
        return self._wrapping.receipts

    def warm_up(self) -> None:
        """Make the components ready that run themselves."""
        with self._running() as running:
            running.warm_up()

    def run(
        self,
        data: dict[str, Any],
        include_outputs_from: set[str] | None = None,
        **how: Any,
    ) -> dict[str, Any]:
        """Run the pipeline; see Haystack's `Pipeline.run`.

        Args:
            data: the inputs of components.
            include_outputs_from: components whose outputs are wanted besides.
            how: Haystack's other keywords: break points and snapshots.
        """
        with self._running() as running:
            try:
                if not how:  # a run that goes on from a snapshot, or stops before one, knows less
                    running.begin(data)
                return running.run(data, include_outputs_from, **how)
            finally:
                running.leave()

    async def run_async_generator(
        self,
        data: dict[str, Any],
        include_outputs_from: set[str] | None = None,
        concurrency_limit: int = 4,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Run the pipeline and yield what components give; see Haystack's method of that name."""
        with self._running() as running:
            parts = running.run_async_generator(data, include_outputs_from, concurrency_limit)
            async with aclosing(parts) as found:
                async for part in found:
                    yield part

    @contextmanager
    def _running(self) -> Iterator[RunningPipeline]:
        """Begin a run, or go on with the one that this is called within, and end it."""
        outer = current_place()
        if outer is not None:
            depths = {n: d + outer.depth for n, d in self._wrapping.depths.items()}
            yield RunningPipeline.of(self, self._parts, depths, outer.run)
            return
        run = self._wrapping.begin()
        try:
            yield RunningPipeline.of(self, self._parts, self._wrapping.depths, run)
        except BaseException as error:
            for engine in self._engines:  # threads may still wait for what nothing needs any more
                engine.cancel_run(run.id)
            self._wrapping.end(run, error)
            raise
        self._wrapping.end(run)
