"""Heddle: one scheduler for embedding, vector search and LLM generation.

Importing this package loads neither torch nor faiss: names are resolved on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heddle.app import Server
    from heddle.core.errors import HeddleError
    from heddle.workflow.ragraph import END, START, RAGraph

__version__ = "0.1.0"

_HOME = {
    "Server": "heddle.app",
    "HeddleError": "heddle.core.errors",
    "RAGraph": "heddle.workflow.ragraph",
    "START": "heddle.workflow.ragraph",
    "END": "heddle.workflow.ragraph",
}
__all__ = ["END", "START", "HeddleError", "RAGraph", "Server", "__version__"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type depends on the name
    if name not in _HOME:
        raise AttributeError(f"module 'heddle' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
