"""Connectors: functions that a user supplies, by which a ready-made workflow reaches outside."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from heddle.core.errors import ConfigError

Connector = Callable[[str], object]
"""Takes a text, such as the words of a search, and returns results."""
Connectors = Mapping[str, Connector]
NO_CONNECTORS: Final[Connectors] = MappingProxyType({})
WEB_SEARCH: Final = "web_search"


def connector_named(name: str, connectors: Connectors, workflow: str) -> Connector:
    """Return a connector that a workflow needs.

    Raises:
        ConfigError: it isn't there; the message says how to supply it.
    """
    if name not in connectors:
        raise ConfigError(
            f"workflow {workflow!r} needs the connector {name!r}, a function of yours: name it "
            f"with --connector {name}=FILE.py:FUNCTION, or in Python make the workflow with "
            f"heddle.workflow.ready_made.ready_made({workflow!r}, {{{name!r}: function}})"
        )
    return connectors[name]
