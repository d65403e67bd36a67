"""A request between its caller and the runtime: checked by one, admitted by the other's thread."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from secrets import token_hex
from typing import Final, Self

from heddle.app.application import App
from heddle.app.assembly.start import RunningServer
from heddle.app.observe.request_observer import heard_before, unheard
from heddle.app.observe.tally import RequestWatch
from heddle.app.remote.refusals import check_remote_request
from heddle.app.request_options import CheckedEmbedding, CheckedRequest, RequestOptions
from heddle.app.requests.arguments import input_values
from heddle.app.requests.call_identity import current_call
from heddle.app.requests.documents import documents_input
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, HeddleError, InputError, Unreachable
from heddle.core.payloads import EmbedPayload
from heddle.core.results import Vectors
from heddle.core.tasks import Caller
from heddle.corpus.chunking import Chunking
from heddle.corpus.store import CorpusStore
from heddle.runtime.handle import Handle
from heddle.runtime.request import EventSink
from heddle.workflow.caching.answer_caching import cache_of
from heddle.workflow.function import WorkflowFunction
from heddle.workflow.nodes import PrimingNode, RetrievalNode
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.ready_made import ready_made
from heddle.workflow.searches import ChangedWorkflows
from heddle.workflow.workflow import Workflow

SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Submission:
    """A request whose arguments are checked.

    Args:
        workflow: as the request's options have changed it.
        inputs: a value for every input.
        options: the checked options.
        caller: the node of another program whose call it is; None = it is a request by itself.
    """

    workflow: Workflow
    inputs: Mapping[str, object]
    options: CheckedRequest
    caller: Caller | None = None

    @classmethod
    def of(
        cls,
        config: ServerConfig,
        changed: ChangedWorkflows,
        workflow: Workflow,
        inputs: str | Mapping[str, object],
        options: RequestOptions,
        chunking: Callable[[], Chunking],
    ) -> Self:
        """Check a request's arguments against the server's configuration; see Server.submit.

        What `call_identity.calling` has named bounds its options.

        `chunking` says how the request's documents are cut; it is asked where there are some.

        Mutates: `changed` keeps the workflow as the options have it.

        Raises:
            InputError, WorkflowError, ConfigError: the request can't be run as it is.
            DeadlineExceeded: the deadline of its run has passed.
        """
        identity = current_call()
        given = options if identity is None else identity.applied(options)
        asked = CheckedRequest.of(given, config)
        workflow = changed.changed(
            workflow,
            topk=asked.topk,
            hybrid=asked.hybrid,
            writing=asked.writing,
            # A passage whose KV is reused costs a prompt too little for reading others to pay.
            may_rerank=not asked.kv_reuse.is_approximate,
            caching=asked.caching,
        )
        if asked.wants_cache and cache_of(workflow) is None:
            raise InputError(
                f"answer_cache: no answers of workflow {workflow.name!r} are kept here: start the "
                "server with --answer-cache exact or similar, or leave it out"
            )
        check_remote_request(config, workflow, asked.kv_reuse)
        values = input_values(inputs, config.question_chars_max)
        values |= documents_input(workflow, asked.documents, chunking)
        searches = [n for n in workflow.nodes.values() if isinstance(n, RetrievalNode)]
        retrieves = any(search.within is None for search in searches)
        if asked.where and not retrieves and workflow.function is None:
            raise InputError(f"where: workflow {workflow.name!r} retrieves nothing: leave it out")
        return cls(workflow, values, asked, None if identity is None else identity.caller)


def admit(running: RunningServer, request: Submission, heard: EventSink = unheard) -> Handle:
    """Admit a request to the runtime and return its handle; call it on the runtime's thread.

    Args:
        running: the server.
        request: the checked request.
        heard: hears each event before the handle does.

    Raises:
        Busy: too many requests are in flight; nothing was started.
        InputError, ConfigError: the request can't be run by this server.
    """
    runtime, clock = running.loop.runtime, running.clock
    # The request gets this number: nothing else runs on this thread until it is submitted.
    request_id = runtime.requests.next_id

    def cancel() -> None:
        running.thread.post(lambda: runtime.cancel(request_id, clock.now_s()))

    handle = Handle(cancel, request_id)
    sink = heard_before(heard, handle.push)
    if running.repriming is not None:
        sink = running.repriming.watched(sink)
    if running.memory is not None and not _primes(request.workflow):
        sink = running.memory.watched(sink)
    now_s = clock.now_s()
    asked = request.options
    # Prompts that show a request's own documents leave no KV that another request could use.
    salt = f"{asked.tenant}\0{token_hex(SALT_BYTES)}" if asked.documents else None
    watch = RequestWatch(running.tally, sink, clock, request.workflow, asked.priority, now_s)
    try:
        _check_topk(request.workflow, running.reads)
        runtime.submit(
            request.workflow,
            request.inputs,
            watch.push,
            now_s=now_s,
            deadline_s=asked.deadline_s,
            priority=asked.priority,
            tenant=asked.tenant,
            optimizations=asked.optimizations,
            kv_reuse=asked.kv_reuse,
            where=asked.where,
            cache_salt=salt,
            caller=request.caller,
            awaits_end_alone=handle.awaits_end_alone,
        )
    except HeddleError as error:
        running.tally.failed(asked.priority, error)
        raise
    running.loop.wake()
    return handle


def admit_embedding(
    running: RunningServer, payload: EmbedPayload, asked: CheckedEmbedding, default_s: float
) -> Future[Vectors]:
    """Admit texts and return their future vectors; call it on the runtime's thread.

    Args:
        running: the server.
        payload: the texts.
        asked: their options.
        default_s: the deadline where they name none [s].

    Raises:
        Busy: they would be late.
        ConfigError: nothing embeds here.
    """
    if running.embedding is None:
        raise ConfigError("this server has no embedder: give it an index")
    answer = running.embedding.submit(
        payload,
        seconds_left=default_s if asked.deadline_s is None else asked.deadline_s,
        priority=asked.priority,
        tenant=asked.tenant,
        dimensions=asked.dimensions,
        next_request=running.loop.runtime.requests.next_id,
    )
    running.loop.wake()
    return answer


def compiled_workflow(workflow: str | RAGraph | WorkflowFunction | Workflow | App) -> Workflow:
    """Return a workflow ready to run: a ready-made one by name, or a caller's own.

    Raises:
        WorkflowError: there is no ready-made one of that name, or the graph can't be run.
    """
    if isinstance(workflow, App):
        return workflow.workflow
    if isinstance(workflow, Workflow):
        return workflow
    return _ready_made(workflow) if isinstance(workflow, str) else workflow.compile()


@cache
def _ready_made(name: str) -> Workflow:
    return ready_made(name).compile()


def _primes(workflow: Workflow) -> bool:
    """Whether it primes a chunk in time that requests leave, and so is none of them."""
    return any(isinstance(node, PrimingNode) for node in workflow.nodes.values())


def _check_topk(workflow: Workflow, store: CorpusStore | None) -> None:
    """Refuse a search for more than the corpus holds."""
    for node in workflow.nodes.values():
        if store is None or not isinstance(node, RetrievalNode) or node.allow_fewer:
            continue
        if node.within is not None:
            continue  # all that the request brought is what there is
        try:
            held = store.count_vectors(node.topk)
        except Unreachable:
            return  # the search lanes judge whether searches go on meanwhile
        if held < node.topk:
            raise InputError(
                f"retrieval node {node.id!r}: topk is {node.topk} and the corpus holds {held} "
                "chunks; lower topk, or add the node with allow_fewer=True"
            )
