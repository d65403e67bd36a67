"""LangGraph's compiled graphs: the framework drives, the engine knows which run and node calls."""

import copy
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final, Self, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.vectorstores import VectorStore
from langgraph._internal._runnable import RunnableCallable
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from heddle.adapters.depths import depths
from heddle.adapters.engine import Engine
from heddle.adapters.langchain.chat import ChatHeddle
from heddle.adapters.langchain.component import ACTIVE, Component, active_run, within
from heddle.adapters.langchain.retriever import HeddleRetriever
from heddle.adapters.langgraph.contents import contents_of
from heddle.adapters.langgraph.nodes import PROMPT, START, GraphNode, nodes_of
from heddle.adapters.langgraph.redirect import may_stand_in
from heddle.adapters.run import Place, Run
from heddle.adapters.wrapping import Wrapping, engine_for, listed, nothing_seen, stand_in_of
from heddle.core.errors import ConfigError

G = TypeVar("G", bound=Pregel)
T = TypeVar("T", bound=Component)
FIX = (
    "use heddle.adapters.langchain's ChatHeddle and HeddleRetriever in its nodes, or have Heddle "
    "answer in the place of your own: heddle.wrap(graph, engine, model=True, retriever=True)"
)
SEARCHERS: Final = (BaseRetriever, VectorStore)
END: Final = object()  # of a graph's chunks, among which None may be


@dataclass(frozen=True, slots=True)
class GraphRun:
    """A run of a wrapped graph, as it travels in LangGraph's configuration."""

    run: Run
    wrapping: Wrapping
    stand_ins: Mapping[int, object]

    def place_of(self, node: str) -> Place:
        """Return where a call of a node is made.

        A graph within that has a thread of its own doesn't name the node that it is in.
        """
        depths = self.wrapping.depths
        inner = [name for name in self.wrapping.primitives if name.endswith(f".{node}")]
        name = inner[0] if node not in depths and len(inner) == 1 else node
        return Place(self.run, name, depths.get(name, 0))

    def joined(self, stand_ins: Mapping[int, object]) -> Self:
        """Return the run as a graph within it has it, whose own stand-ins answer there, too."""
        return replace(self, stand_ins={**self.stand_ins, **stand_ins})


def wrapped(
    graph: G,
    engine: object = None,
    *,
    model: ChatHeddle | bool | None = None,
    retriever: HeddleRetriever | bool | None = None,
    **options: Any,
) -> G:
    """Return a compiled graph whose runs the engine knows; see `heddle.wrap`.

    Args:
        graph: the compiled graph.
        engine: a server, its address, or None.
        model: has Heddle's LLM answer where nodes call chat models of others: a ChatHeddle, or
            True.
        retriever: the same for retrievers and vector stores, whose corpus must then be the
            server's.
        options: `deadline_s`, `priority`, `on_receipt`.

    Mutates: the replaced models and retrievers; each gets a class of its own.

    Raises:
        ConfigError: it is not compiled, no node calls a model or searches, an option finds no
            component, or it can't be used.
    """
    if isinstance(graph, StateGraph) or not isinstance(graph, Pregel):
        raise ConfigError("wrap: the graph is not compiled: heddle.wrap(builder.compile(...), ...)")
    nodes = list(nodes_of(graph))
    _check_found("model", model, nodes, "chat model", BaseChatModel)
    _check_found("retriever", retriever, nodes, "retriever or vector store", *SEARCHERS)
    replaced = _Replaced(nodes, engine, model, retriever)
    primitives = {node.name: kinds for node in nodes if (kinds := node.kinds(replaced.has))}
    if not any(set(kinds) - {PROMPT} for kinds in primitives.values()):
        name = graph.get_name()
        raise nothing_seen(f"graph {name!r}", {node.name: node.words() for node in nodes}, FIX)
    wrapping = Wrapping.of(primitives, _depths_of(graph, primitives), options)
    return _driven(graph, wrapping, replaced)


def _check_found(
    option: str, given: object, nodes: list[GraphNode], what: str, *kinds: type
) -> None:
    """Refuse an option that finds no component."""
    if given and not any(node.contents.of(*kinds) for node in nodes):
        words = listed({node.name: node.words() for node in nodes})
        raise ConfigError(
            f"wrap: {option}= finds no {what} in a node ({words}): leave it out, or have a node "
            "name one (docs/guide/adapters.md#what-is-found-in-a-graph)"
        )


class _Replaced:
    """The components of others in whose place Heddle answers.

    Raises:
        ConfigError: nothing names the engine, or a component can't be replaced.
    """

    def __init__(
        self,
        nodes: list[GraphNode],
        engine: object,
        model: ChatHeddle | bool | None,
        retriever: HeddleRetriever | bool | None,
    ) -> None:
        own = {name: one for node in nodes for name, one in node.engines.items()}
        given = [one.heddle for one in (model, retriever) if isinstance(one, Component)]
        named = given[0] if engine is None and given else engine
        self.engine: Engine = engine_for(named, own, "the graph")
        writer = self._stand_in(model, ChatHeddle, "model")
        searcher = self._stand_in(retriever, HeddleRetriever, "retriever")
        self.stand_ins: dict[int, object] = {}
        self._replaced: list[Any] = []  # kept, so that no other object gets their ids
        for node in nodes:
            for one in node.foreign(BaseChatModel) if writer is not None else ():
                self._replace(one, writer)
            for one in node.foreign(*SEARCHERS) if searcher is not None else ():
                # A retriever that asks others and works on their passages stays: those are
                # replaced.
                if not contents_of(*vars(one).values()).of(BaseRetriever):
                    self._replace(one, searcher)

    def has(self, one: object) -> bool:
        """Whether Heddle answers in the place of a component."""
        return id(one) in self.stand_ins

    def _stand_in(self, given: object, kind: type[T], option: str) -> T | None:
        """Return what answers in the place of others; None: nothing does."""
        if not given:
            return None
        return kind(engine=self.engine) if given is True else stand_in_of(given, kind, option)

    def _replace(self, one: Any, target: object) -> None:
        may_stand_in(one)
        self._replaced.append(one)
        self.stand_ins[id(one)] = target


def _depths_of(graph: Pregel, primitives: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Return how many primitives follow each node on the longest way, nodes of nodes included."""
    steps: dict[str, int] = {}
    for name, kinds in primitives.items():
        top = name.partition(".")[0]
        steps[top] = steps.get(top, 0) + len(set(kinds) - {PROMPT})
    drawn = graph.get_graph()
    edges = [(edge.source, edge.target) for edge in drawn.edges]
    names = list(drawn.nodes)
    found = depths(names, edges, {name: steps.get(name, 0) for name in names})
    inner = {name: found.get(name.partition(".")[0], 0) for name in primitives}
    return {**found, **inner}


@dataclass(slots=True)
class _Course:
    """One invocation of a wrapped graph.

    Args:
        active: its run.
        engine: carries its calls out.
        is_own: whether the run began with it; else it is a part of the run that it is called in.

    Mutates: `error`, where it fails.
    """

    active: GraphRun
    engine: Engine
    is_own: bool
    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Take in what has ended it, and end the calls that are under way for its run."""
        self.error = error
        if self.is_own:
            self.engine.cancel_run(self.active.run.id)

    def end(self) -> None:
        """End its run; a part of another run leaves that one going on."""
        if self.is_own:
            self.active.wrapping.end(self.active.run, self.error)


def _driven(graph: G, wrapping: Wrapping, replaced: _Replaced) -> G:
    """Return a copy of a graph that begins a run with each of its own.

    It is of a class of its own below the graph's: LangGraph copies graphs by their class, and
    leads invoke, ainvoke and all streams of events to these two.
    """

    class Driven(type(graph)):  # type: ignore[misc]
        """A compiled graph whose runs the engine knows."""

        def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
            """Run the graph, as the framework's own method of that name does."""
            course = begun(config)
            chunks = super().stream(input, _carrying(config, course.active), **kwargs)
            try:
                # `yield from` would end the graph first, which waits for its nodes' threads.
                while True:
                    with within(course.active):
                        chunk = next(chunks, END)
                    if chunk is END:
                        break
                    yield chunk
            except BaseException as raised:
                course.fail(raised)
                raise
            finally:
                chunks.close()
                course.end()

        async def astream(
            self, input: Any, config: Any = None, **kwargs: Any
        ) -> AsyncIterator[Any]:
            """Run the graph, as the framework's own method of that name does."""
            course = begun(config)
            chunks = super().astream(input, _carrying(config, course.active), **kwargs)
            try:
                while True:
                    with within(course.active):
                        chunk = await anext(chunks, END)
                    if chunk is END:
                        break
                    yield chunk
            except BaseException as raised:
                course.fail(raised)
                raise
            finally:
                await chunks.aclose()
                course.end()

        @property
        def receipts(self) -> Any:
            """The receipts of the last runs, the newest last."""
            return wrapping.receipts

    def begun(config: RunnableConfig | None) -> _Course:
        outer = active_run(config)
        if isinstance(outer, GraphRun):
            return _Course(outer.joined(replaced.stand_ins), replaced.engine, is_own=False)
        active = GraphRun(wrapping.begin(), wrapping, replaced.stand_ins)
        return _Course(active, replaced.engine, is_own=True)

    old = type(graph)
    Driven.__name__, Driven.__qualname__, Driven.__module__ = (
        old.__name__,
        old.__qualname__,
        old.__module__,
    )
    driven = copy.copy(graph)
    object.__setattr__(driven, "__class__", Driven)
    driven.nodes = {
        name: node if name == START or name in _callers(wrapping) else _counted(name, node)
        for name, node in graph.nodes.items()
    }
    return driven


def _callers(wrapping: Wrapping) -> set[str]:
    """Return the nodes of the graph itself that call the engine, or hold such."""
    return {name.partition(".")[0] for name in wrapping.primitives}


def _carrying(config: RunnableConfig | None, active: GraphRun) -> RunnableConfig:
    given = dict(config or {})
    own = {**(given.get("configurable") or {}), ACTIVE: active}
    return {**given, "configurable": own}  # type: ignore[typeddict-item, unused-ignore]


def _counted(name: str, node: Any) -> Any:
    """Return a node of plain Python whose runs are counted, and timed where it is a function."""
    bound = node.bound
    if isinstance(bound, RunnableCallable):
        timed = copy.copy(bound)
        timed.func = None if bound.func is None else _timed(name, bound.func)
        timed.afunc = None if bound.afunc is None else _timed_async(name, bound.afunc)
        return node.copy({"bound": timed})
    count = RunnableCallable(_counting(name), trace=False, recurse=False)
    return node.copy({"writers": [count, *node.writers]})


def _timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        run = _run()
        begun_s = 0.0 if run is None else run.age_s
        try:
            return function(*args, **kwargs)
        finally:
            if run is not None:
                run.add_tool(name, run.age_s - begun_s)

    return timed


def _timed_async(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def timed(*args: Any, **kwargs: Any) -> Any:
        run = _run()
        begun_s = 0.0 if run is None else run.age_s
        try:
            return await function(*args, **kwargs)
        finally:
            if run is not None:
                run.add_tool(name, run.age_s - begun_s)

    return timed


def _counting(name: str) -> Callable[[Any], Any]:
    def count(value: Any) -> Any:
        run = _run()
        if run is not None:
            run.add_tool(name, 0.0)
        return value

    return count


def _run() -> Run | None:
    config = var_child_runnable_config.get() or {}
    active = (config.get("configurable") or {}).get(ACTIVE)
    return active.run if isinstance(active, GraphRun) else None
