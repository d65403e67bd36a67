"""Heddle: one scheduler for embedding, vector search and LLM generation.

Importing this package loads neither torch nor faiss: names are resolved on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from heddle.adapters.wrap import wrap
    from heddle.app.application import App
    from heddle.app.extensions import Extensions, OwnEngine
    from heddle.app.indexing.documents import DocumentChange
    from heddle.app.priming.plan import PrimingPlan, PrimingProgress, PrimingReport
    from heddle.app.request_options import EmbeddingOptions, RequestOptions
    from heddle.app.search import SearchOptions, SearchResult
    from heddle.app.server import Server
    from heddle.app.server_config import ServerConfig
    from heddle.app.server_settings import ServerSettings
    from heddle.core.errors import (
        Busy,
        Cancelled,
        ConfigError,
        DeadlineExceeded,
        DiskFull,
        EngineError,
        HeddleError,
        InputError,
        InternalError,
        StorageError,
        Unreachable,
        WorkflowError,
    )
    from heddle.core.kv_reuse import KvReuse, PrimedWith, QuestionPass, ReusePolicy
    from heddle.core.passages import Passage
    from heddle.core.payloads import TextRole
    from heddle.core.prompts.constraint import Constraint, ConstraintKind
    from heddle.core.results import Vectors
    from heddle.core.tasks import Optimizations, Priority
    from heddle.engines.embedding.long_texts import LongTexts
    from heddle.engines.vector.pool.policies import PoolPolicy
    from heddle.engines.vector.shards.port import LostShard
    from heddle.passes.runner import CyclePass, GraphPass
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
    from heddle.workflow.calls import Calls
    from heddle.workflow.deferred import Deferred
    from heddle.workflow.function import WorkflowFunction, as_workflow
    from heddle.workflow.ragraph import END, START, RAGraph
    from heddle.workflow.workflow import Workflow

__version__ = "0.1.0"

_HOMES: Final = {
    "END": "heddle.workflow.ragraph",
    "START": "heddle.workflow.ragraph",
    "Answer": "heddle.runtime.events",
    "App": "heddle.app.application",
    "Busy": "heddle.core.errors",
    "Calls": "heddle.workflow.calls",
    "Cancelled": "heddle.core.errors",
    "ConfigError": "heddle.core.errors",
    "Constraint": "heddle.core.prompts.constraint",
    "ConstraintKind": "heddle.core.prompts.constraint",
    "CyclePass": "heddle.passes.runner",
    "DeadlineExceeded": "heddle.core.errors",
    "Deferred": "heddle.workflow.deferred",
    "DiskFull": "heddle.core.errors",
    "Unreachable": "heddle.core.errors",
    "DocumentChange": "heddle.app.indexing.documents",
    "EmbeddingOptions": "heddle.app.request_options",
    "EngineError": "heddle.core.errors",
    "Extensions": "heddle.app.extensions",
    "GraphPass": "heddle.passes.runner",
    "Handle": "heddle.runtime.handle",
    "HeddleError": "heddle.core.errors",
    "InputError": "heddle.core.errors",
    "InternalError": "heddle.core.errors",
    "KvReuse": "heddle.core.kv_reuse",
    "LongTexts": "heddle.engines.embedding.long_texts",
    "LostShard": "heddle.engines.vector.shards.port",
    "NodeFinished": "heddle.runtime.events",
    "NodeStarted": "heddle.runtime.events",
    "Optimizations": "heddle.core.tasks",
    "OwnEngine": "heddle.app.extensions",
    "Passage": "heddle.core.passages",
    "PoolPolicy": "heddle.engines.vector.pool.policies",
    "PrimedWith": "heddle.core.kv_reuse",
    "PrimingPlan": "heddle.app.priming.plan",
    "PrimingProgress": "heddle.app.priming.plan",
    "PrimingReport": "heddle.app.priming.plan",
    "Priority": "heddle.core.tasks",
    "QuestionPass": "heddle.core.kv_reuse",
    "RAGraph": "heddle.workflow.ragraph",
    "Receipt": "heddle.runtime.receipt",
    "RequestEvent": "heddle.runtime.events",
    "RequestFailed": "heddle.runtime.events",
    "RequestOptions": "heddle.app.request_options",
    "Retrieved": "heddle.runtime.events",
    "ReusePolicy": "heddle.core.kv_reuse",
    "SearchOptions": "heddle.app.search",
    "SearchResult": "heddle.app.search",
    "Server": "heddle.app.server",
    "ServerConfig": "heddle.app.server_config",
    "ServerSettings": "heddle.app.server_settings",
    "StorageError": "heddle.core.errors",
    "TextRole": "heddle.core.payloads",
    "TokenDelta": "heddle.runtime.events",
    "Vectors": "heddle.core.results",
    "Workflow": "heddle.workflow.workflow",
    "WorkflowError": "heddle.core.errors",
    "WorkflowFunction": "heddle.workflow.function",
    "as_workflow": "heddle.workflow.function",
    "wrap": "heddle.adapters.wrap",
}
__all__ = [
    "END",
    "START",
    "Answer",
    "App",
    "Busy",
    "Calls",
    "Cancelled",
    "ConfigError",
    "Constraint",
    "ConstraintKind",
    "CyclePass",
    "DeadlineExceeded",
    "Deferred",
    "DiskFull",
    "DocumentChange",
    "EmbeddingOptions",
    "EngineError",
    "Extensions",
    "GraphPass",
    "Handle",
    "HeddleError",
    "InputError",
    "InternalError",
    "KvReuse",
    "LongTexts",
    "LostShard",
    "NodeFinished",
    "NodeStarted",
    "Optimizations",
    "OwnEngine",
    "Passage",
    "PoolPolicy",
    "PrimedWith",
    "PrimingPlan",
    "PrimingProgress",
    "PrimingReport",
    "Priority",
    "QuestionPass",
    "RAGraph",
    "Receipt",
    "RequestEvent",
    "RequestFailed",
    "RequestOptions",
    "Retrieved",
    "ReusePolicy",
    "SearchOptions",
    "SearchResult",
    "Server",
    "ServerConfig",
    "ServerSettings",
    "StorageError",
    "TextRole",
    "TokenDelta",
    "Unreachable",
    "Vectors",
    "Workflow",
    "WorkflowError",
    "WorkflowFunction",
    "__version__",
    "as_workflow",
    "wrap",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type depends on the name
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'heddle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
