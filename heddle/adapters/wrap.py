"""`heddle.wrap`: a program of another framework, its calls scheduled together."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, TypeVar

from heddle.core.errors import ConfigError

P = TypeVar("P")
# The package of a program's class, and the module whose `wrapped` takes it over.
FRAMEWORKS: Final[Mapping[str, str]] = {
    "langgraph": "heddle.adapters.langgraph.wrapping",
    "haystack": "heddle.adapters.haystack.wrapping",
    "llama_index": "heddle.adapters.llamaindex.wrapping",
}
CHAIN: Final = (
    "a chain needs no wrap: put heddle.adapters.langchain's ChatHeddle and HeddleRetriever into "
    "it, or make it a node of a compiled graph"
)


def wrap(program: P, engine: object = None, **options: Any) -> P:
    """Return a program that goes on as before, and whose retrievals and models are Heddle's.

    The framework stays the driver: state, checkpoints, streams of events, conditions and loops
    work as they did. Each invocation is one run: all of its calls are as old as the run, and carry
    the node, its depth, the run's deadline and its class.

    Args:
        program: a compiled LangGraph graph, a Haystack pipeline, or a LlamaIndex query engine.
        engine: a `heddle.Server`, or the address of a running one; None = that of the Heddle
            components within.
        options: `deadline_s` and `priority` of each run, `on_receipt`, which is called with each
            run's RunReceipt, and what the framework's adapter takes (docs/guide/adapters.md).

    Raises:
        ConfigError: it is none of these, nothing in it can be Heddle's, or an option can't be used.

    Example:
        import heddle
        from heddle.adapters.langchain import HeddleRetriever
        from langgraph.graph import START, StateGraph

        retriever = HeddleRetriever(engine=server, k=1)
        builder = StateGraph(dict)
        builder.add_node("find", lambda state: {"docs": retriever.invoke(state["question"])})
        builder.add_edge(START, "find")
        graph = heddle.wrap(builder.compile(), priority="bulk")
        print(graph.invoke({"question": "Who founded Oak Mill?"})["docs"][0].metadata["title"])
        # mill
        print(graph.receipts[0].primitives_seen)  # {'find': ('embedding', 'searching')}
    """
    for kind in type(program).__mro__:
        module = FRAMEWORKS.get(kind.__module__.partition(".")[0])
        if module is not None:
            wrapped: P = import_module(module).wrapped(program, engine, **options)
            return wrapped
    is_chain = type(program).__module__.partition(".")[0] == "langchain_core"
    raise ConfigError(
        f"wrap: {type(program).__module__}.{type(program).__qualname__} is no program of "
        f"{', '.join(FRAMEWORKS)}: "
        + (CHAIN if is_chain else "give a compiled graph, a pipeline or a query engine")
    )
