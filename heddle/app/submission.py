"""A request between its caller and the runtime: checked by one, admitted by the other's thread."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from heddle.app.application import App
from heddle.app.assembly.start import RunningServer
from heddle.app.observe.tally import RequestWatch
from heddle.app.request_arguments import input_values, member_named, patience_s, tenant_name
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, HeddleError, InputError
from heddle.core.kv_reuse import KvReuse, kv_reuse_of
from heddle.core.search_scope import Where, where_of
from heddle.core.tasks import Optimizations, Priority
from heddle.corpus.store import CorpusStore
from heddle.runtime.handle import Handle
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import preset
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

STRENGTH = {Optimizations.OFF: 0, Optimizations.EXACT: 1, Optimizations.APPROX: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A request whose arguments are checked; `deadline_s` None = the server's default."""

    workflow: Workflow
    inputs: Mapping[str, object]
    deadline_s: float | None
    priority: Priority
    tenant: str
    optimizations: Optimizations
    kv_reuse: KvReuse
    where: Where


def checked_submission(
    config: ServerConfig,
    workflow: str | RAGraph | Workflow | App,
    inputs: str | Mapping[str, object],
    *,
    deadline_s: float | None,
    priority: Priority | str,
    tenant: str,
    optimizations: Optimizations | str | None,
    kv_reuse: KvReuse | str | None,
    where: Mapping[str, object] | None,
) -> Submission:
    """Check a request's arguments against the server's configuration; see Server.submit.

    Raises:
        InputError, WorkflowError, ConfigError: the request can't be run as it is.
    """
    compiled = compiled_workflow(workflow)
    values = input_values(inputs)
    mode = _optimizations(config, optimizations)
    reuse = config.kv_reuse if kv_reuse is None else kv_reuse_of(kv_reuse)
    if kv_reuse is not None and reuse.is_approximate and mode is not Optimizations.APPROX:
        raise ConfigError(
            f"kv_reuse {reuse.policy.value!r} gives approximate answers: allow them with "
            "optimizations='approx' (for the server, too)"
        )
    level = member_named(Priority, priority, "priority")
    time_s = patience_s(deadline_s)
    owner = tenant_name(tenant)
    wanted = where_of(where or {})
    if wanted and not any(isinstance(n, RetrievalNode) for n in compiled.nodes.values()):
        raise InputError(f"where: workflow {compiled.name!r} retrieves nothing: leave it out")
    return Submission(
        workflow=compiled,
        inputs=values,
        deadline_s=time_s,
        priority=level,
        tenant=owner,
        optimizations=mode,
        kv_reuse=reuse,
        where=wanted,
    )


def admit(running: RunningServer, request: Submission) -> Handle:
    """Admit a request to the runtime and return its handle; call it on the runtime's thread.

    Raises:
        Busy: too many requests are in flight; nothing was started.
        InputError, ConfigError: the request can't be run by this server.
    """
    runtime, clock = running.loop.runtime, running.clock
    # The request gets this number: nothing else runs on this thread until it is submitted.
    request_id = runtime.requests.next_id

    def cancel() -> None:
        running.thread.post(lambda: runtime.cancel(request_id, clock.now_s()))

    handle = Handle(cancel)
    sink = handle.push if running.repriming is None else running.repriming.watched(handle.push)
    now_s = clock.now_s()
    watch = RequestWatch(running.tally, sink, clock, request.workflow, request.priority, now_s)
    try:
        _check_topk(request.workflow, running.store)
        runtime.submit(
            request.workflow,
            request.inputs,
            watch.push,
            now_s=now_s,
            deadline_s=request.deadline_s,
            priority=request.priority,
            tenant=request.tenant,
            optimizations=request.optimizations,
            kv_reuse=request.kv_reuse,
            where=request.where,
        )
    except HeddleError as error:
        running.tally.failed(request.priority, error)
        raise
    running.loop.wake()
    return handle


def compiled_workflow(workflow: str | RAGraph | Workflow | App) -> Workflow:
    """Return a workflow ready to run: a ready-made one by name, or a caller's own.

    Raises:
        WorkflowError: there is no ready-made one of that name, or the graph can't be run.
    """
    if isinstance(workflow, App):
        return workflow.workflow
    if isinstance(workflow, Workflow):
        return workflow
    return workflow.compile() if isinstance(workflow, RAGraph) else _preset(workflow)


@cache
def _preset(name: str) -> Workflow:
    return preset(name).compile()


def _optimizations(config: ServerConfig, wanted: Optimizations | str | None) -> Optimizations:
    if wanted is None:
        return config.optimizations
    mode = member_named(Optimizations, wanted, "optimizations")
    if STRENGTH[mode] > STRENGTH[config.optimizations]:
        raise ConfigError(
            f"optimizations={mode.value!r} is more than this server allows "
            f"({config.optimizations.value!r})"
        )
    return mode


def _check_topk(workflow: Workflow, store: CorpusStore | None) -> None:
    """Refuse a search for more than the corpus holds."""
    for node in workflow.nodes.values():
        if store is None or not isinstance(node, RetrievalNode) or node.allow_fewer:
            continue
        held = store.count_vectors(node.topk)
        if held < node.topk:
            raise InputError(
                f"retrieval node {node.id!r}: topk is {node.topk} and the corpus holds {held} "
                "chunks; lower topk, or add the node with allow_fewer=True"
            )
