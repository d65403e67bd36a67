"""Heddle: one scheduler for embedding, vector search and LLM generation.

Importing this package loads neither torch nor faiss: names are resolved on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heddle.app import App, Server
    from heddle.core.errors import (
        Busy,
        Cancelled,
        ConfigError,
        DeadlineExceeded,
        EngineError,
        HeddleError,
        InputError,
        InternalError,
        StorageError,
        WorkflowError,
    )
    from heddle.core.passages import Passage
    from heddle.runtime.events import (
        Answer,
        NodeFinished,
        NodeStarted,
        RequestEvent,
        RequestFailed,
        Retrieved,
        TokenDelta,
    )
    from heddle.runtime.handle import Handle
    from heddle.runtime.receipt import Receipt
    from heddle.workflow.ragraph import END, START, RAGraph

__version__ = "0.1.0"

__all__ = [
    "END",
    "START",
    "Answer",
    "App",
    "Busy",
    "Cancelled",
    "ConfigError",
    "DeadlineExceeded",
    "EngineError",
    "Handle",
    "HeddleError",
    "InputError",
    "InternalError",
    "NodeFinished",
    "NodeStarted",
    "Passage",
    "RAGraph",
    "Receipt",
    "RequestEvent",
    "RequestFailed",
    "Retrieved",
    "Server",
    "StorageError",
    "TokenDelta",
    "WorkflowError",
    "__version__",
]
# Where the names are looked for, what loads fastest first.
_HOMES = (
    "heddle.core.errors",
    "heddle.workflow.ragraph",
    "heddle.core.passages",
    "heddle.runtime.receipt",
    "heddle.runtime.events",
    "heddle.runtime.handle",
    "heddle.app",
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type depends on the name
    if name in __all__:
        for module in map(import_module, _HOMES):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'heddle' has no attribute {name!r}")
