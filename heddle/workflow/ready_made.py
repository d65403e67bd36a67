"""All ready-made workflows by name."""

from collections.abc import Callable, Mapping
from typing import Final

from heddle.core.errors import WorkflowError
from heddle.workflow.agent import agent
from heddle.workflow.applications import doc_qa_advanced, doc_qa_naive, flare, search_engine
from heddle.workflow.checking.values import check_function
from heddle.workflow.connectors import (
    NO_CONNECTORS,
    WEB_SEARCH,
    Connectors,
    connector_named,
)
from heddle.workflow.presets import PRESETS, preset
from heddle.workflow.ragraph import RAGraph

APPLICATIONS: Final[Mapping[str, Callable[[Connectors], RAGraph]]] = {
    "doc_qa_naive": lambda _: doc_qa_naive(),
    "doc_qa_advanced": lambda _: doc_qa_advanced(),
    "search_engine": lambda connectors: search_engine(
        connector_named(WEB_SEARCH, connectors, "search_engine")
    ),
    "agent": agent,
    "flare": lambda _: flare(),
}
READY_MADE: Final = (*PRESETS, *APPLICATIONS)
# The connectors that a workflow calls, by its name; None = every one. Others call none.
_CALLS: Final[Mapping[str, frozenset[str] | None]] = {
    "search_engine": frozenset({WEB_SEARCH}),
    "agent": None,
}


def ready_made(name: str, connectors: Connectors = NO_CONNECTORS) -> RAGraph:
    """Return a ready-made workflow.

    Args:
        name: one of `READY_MADE`.
        connectors: functions that it may reach outside with, by name.

    Raises:
        WorkflowError: no such workflow, or a connector that is no plain function.
        ConfigError: it needs a connector that isn't there.
    """
    for named, connector in connectors.items():
        check_function(connector, f"connector {named!r}")
    if name in APPLICATIONS:
        return APPLICATIONS[name](connectors)
    if name not in PRESETS:
        raise WorkflowError(f"workflow {name!r} is unknown; there are {', '.join(READY_MADE)}")
    return preset(name)


def unused_connectors(name: str, connectors: Connectors) -> tuple[str, ...]:
    """Return the names of the connectors that a workflow never calls.

    Args:
        name: a ready-made workflow's, or another's, which calls none.
        connectors: functions by name.
    """
    called = _CALLS.get(name, frozenset())
    return () if called is None else tuple(one for one in connectors if one not in called)
