"""One run of a wrapped pipeline: Haystack drives, and each component runs at its place."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from haystack import Pipeline
from haystack.dataclasses.breakpoints import Breakpoint
from haystack.tracing import Span

from heddle.adapters.haystack.ahead import Ahead, Begun, known_inputs
from heddle.adapters.haystack.part_kind import PartKind
from heddle.adapters.haystack.parts import Part
from heddle.adapters.run import Place, Run, at
from heddle.core.errors import InputError


class RunningPipeline(Pipeline):
    """A pipeline for one run: the graph and all else is the wrapped pipeline's own.

    Its attributes stand in slots, as `__dict__` is shared with that pipeline.

    Mutates: `_run` learns of each component that has run.
    """

    __slots__ = ("_ahead", "_depths", "_parts", "_run", "_texts")

    _ahead: Ahead
    _depths: Mapping[str, int]
    _parts: Mapping[str, Part]
    _run: Run
    _texts: dict[tuple[float, ...], str]

    @classmethod
    def of(
        cls, pipeline: Pipeline, parts: Mapping[str, Part], depths: Mapping[str, int], run: Run
    ) -> Self:
        """Return a pipeline for one run.

        Args:
            pipeline: the wrapped one.
            parts: the components that are known.
            depths: for each component, the steps that follow it at most.
            run: learns of what is done.
        """
        running = cls.__new__(cls)
        running.__dict__ = pipeline.__dict__  # type: ignore[misc, unused-ignore]
        running._parts, running._depths, running._run = parts, depths, run
        running._texts, running._ahead = {}, Ahead()
        return running

    def begin(self, data: Mapping[str, Any]) -> None:
        """Begin all searches that these inputs tell, side by side.

        Raises:
            ValueError, InputError: the inputs can't be used.
        """
        told = self._prepare_component_input_data(dict(data))
        self.validate_input(told)
        for name, inputs in known_inputs(self, self._parts, told).items():
            part, node = self._parts[name], self.graph.nodes[name]
            does = part.stand_in or node["instance"]
            given = part.fitted(name, inputs, node["input_sockets"])
            self._ahead.begin(name, given, partial(self._worked, name, does, given))

    def leave(self) -> None:
        """Leave what has begun and was not needed."""
        self._ahead.close()

    def _worked(self, name: str, component: Any, inputs: dict[str, Any]) -> Any:
        with at(self._place(name)):
            return component.run(**inputs)

    def warm_up(self) -> None:
        """Make the components ready that run themselves."""
        for name, node in self.graph.nodes(data=True):
            if self._runs_itself(name) and hasattr(node["instance"], "warm_up"):
                node["instance"].warm_up()

    async def warm_up_async(self) -> None:
        """Make the components ready that run themselves, on the event loop."""
        for name, node in self.graph.nodes(data=True):
            instance = node["instance"]
            if not self._runs_itself(name):
                continue
            if hasattr(instance, "warm_up_async"):
                await instance.warm_up_async()
            elif hasattr(instance, "warm_up"):
                instance.warm_up()

    # Haystack calls the next two for each component, as static methods of its own.

    def _run_component(  # type: ignore[override, unused-ignore]
        self,
        component_name: str,
        component: dict[str, Any],
        inputs: dict[str, Any],
        component_visits: dict[str, int],
        parent_span: Span | None = None,
        *,
        break_point: Breakpoint | None = None,
    ) -> Mapping[str, Any]:
        node, given = self._placed(component_name, component, inputs)
        work = self._ahead.taken(component_name, given)
        if work is not None:
            node = {**node, "instance": Begun(node["instance"], work)}
        with self._course(component_name):
            found = Pipeline._run_component(
                component_name, node, given, component_visits, parent_span, break_point=break_point
            )
        self._note(component_name, inputs, found)
        return found

    async def _run_component_async(  # type: ignore[override, unused-ignore]
        self,
        component_name: str,
        component: dict[str, Any],
        component_inputs: dict[str, Any],
        component_visits: dict[str, int],
        parent_span: Span | None = None,
        *,
        break_point: Breakpoint | None = None,
    ) -> Mapping[str, Any]:
        node, given = self._placed(component_name, component, component_inputs)
        with self._course(component_name):
            found = await Pipeline._run_component_async(
                component_name, node, given, component_visits, parent_span, break_point=break_point
            )
        self._note(component_name, component_inputs, found)
        return found

    def _runs_itself(self, name: str) -> bool:
        return name not in self._parts or self._parts[name].stand_in is None

    @contextmanager
    def _course(self, name: str) -> Iterator[None]:
        """Let a component's calls be made at its place, and count it where it makes none."""
        begun_s = self._run.age_s
        try:
            with at(self._place(name)):
                yield
        finally:
            if name not in self._parts or not self._parts[name].primitives:
                self._run.add_tool(name, self._run.age_s - begun_s)

    def _place(self, name: str) -> Place:
        return Place(self._run, name, self._depths.get(name, 0))

    def _placed(
        self, name: str, component: dict[str, Any], inputs: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what runs in the place of a component, and its inputs."""
        if self._runs_itself(name):
            return component, inputs
        part = self._parts[name]
        if part.kind is PartKind.VECTOR_RETRIEVER:
            inputs = self._with_text(name, inputs)
        given = part.fitted(name, inputs, component["input_sockets"])
        return {**component, "instance": part.stand_in}, given

    def _with_text(self, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return a retriever's inputs with the query in the place of its vector.

        The engine embeds the query itself; the vector was embedded in this run and is in its cache.
        """
        vector = tuple(inputs.get("query_embedding") or ())
        if vector not in self._texts:
            raise InputError(
                f"component {name!r}: its query_embedding comes from no text embedder of this "
                "pipeline, so its query isn't known: connect one, or wrap without retriever=",
                param="query_embedding",
            )
        rest = {socket: value for socket, value in inputs.items() if socket != "query_embedding"}
        return {"query": self._texts[vector], **rest}

    def _note(self, name: str, inputs: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Keep which text a vector is of."""
        if name in self._parts and self._parts[name].kind is PartKind.TEXT_EMBEDDER:
            self._texts[tuple(found["embedding"])] = inputs["text"]
