"""The graph of one query: as lowered, and as the passes leave it. (Teola §3.2, line 22)"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heddle.app.application import App
from heddle.graph.pgraph import PGraph
from heddle.graph.render import render_text
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.runner import GRAPH_PASSES, PassRunner
from heddle.runtime.clock import SystemClock
from heddle.runtime.handle import Handle
from heddle.teola.application import APP
from heddle.teola.pass_registry import PassRegistry


@dataclass(frozen=True, slots=True)
class Graph:
    """A query, ready to be scheduled, and what will run for it.

    Args:
        app: the application on its server.
        query: the question, or a value for every input.
        config: the request's options, as `Server.submit` takes them.
        p_graph: the primitives as they were lowered.
        e_graph: as the passes leave them.
        passes: those that changed something.
    """

    app: App
    query: str | Mapping[str, object]
    config: Mapping[str, Any]
    p_graph: PGraph
    e_graph: PGraph
    passes: tuple[str, ...]

    @classmethod
    def optimize(
        cls,
        app: APP,
        query: str | Mapping[str, object],
        config: Mapping[str, Any] | None,
        passes: PassRegistry,
    ) -> "Graph":
        """Lower a query's graph and run the passes, Heddle's and those that are registered.

        Raises:
            ConfigError, InputError, WorkflowError: the application can't be started.
            InternalError: a pass breaks the graph; the message names it.
        """
        own = tuple(passes.passes.values())
        served = app.served(own)
        workflow = served.workflow
        scope = initial_scope(dict.fromkeys(workflow.inputs, ""))
        p_graph = lower_region(workflow, workflow.entries, scope).graph
        runner = PassRunner(SystemClock(), graph_passes=(*GRAPH_PASSES, *own))
        e_graph, records = runner.optimize(p_graph)
        changed = tuple(record.name for record in records if record.changed)
        return cls(served, query, dict(config or {}), p_graph, e_graph, changed)

    def schedule(self) -> Handle:
        """Submit the query and return its handle; see Server.submit."""
        return self.app.submit(self.query, **self.config)

    def __str__(self) -> str:
        return render_text(self.e_graph)
