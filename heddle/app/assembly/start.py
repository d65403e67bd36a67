"""Starts a server, piece by piece, and ends it in the opposite order."""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

from heddle.app.assembly.assemble import Parts, assemble
from heddle.app.assembly.cluster import open_cluster
from heddle.app.assembly.lanes import lane_limits, lane_specs
from heddle.app.assembly.remote_ports import start_remote_ports
from heddle.app.assembly.served_roles import served_roles
from heddle.app.assembly.server_plan import ServerPlan, plan_server
from heddle.app.embedding_service import EmbeddingService
from heddle.app.extensions import NO_EXTENSIONS, Extensions
from heddle.app.observe.memory_watch import MemoryWatch
from heddle.app.observe.scrubbing import Scrubbing
from heddle.app.observe.server_state import CorpusState, EngineState, ServerState
from heddle.app.observe.tally import Tally
from heddle.app.priming.reprime import Repriming, repriming_of
from heddle.app.runtime_thread import RuntimeThread
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, InputError, StorageError
from heddle.core.ports import Clock, Spread, Tracer
from heddle.core.primitives import PrimitiveKind
from heddle.corpus.store import CorpusStore
from heddle.graph.pgraph import PGraph
from heddle.hosts.process import ProcessLane, start_lanes
from heddle.hosts.tool_threads import ToolThreads
from heddle.hosts.work_threads import WorkThreads
from heddle.passes.runner import check_pass_names
from heddle.runtime.handle import Handle
from heddle.runtime.lane import Lane
from heddle.runtime.loop import RuntimeLoop

log = logging.getLogger(__name__)
# All requests wait for what the runtime's thread reads of a corpus in a database [s].
ANSWER_S: Final = 1.0
TOKENIZING_THREADS: Final = 2  # one long prompt doesn't hold up the next, and cores are left


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The pieces of a server that runs, and how they end.

    Args:
        plan: what was started.
        store: the corpus; None = there is none.
        reads: the corpus as the runtime's thread reads it, which waits for no silent database.
        clock: the time of everything.
        thread: where the runtime lives.
        lanes: the lanes that are processes.
        roles: the lanes of each role, by its name.
        loop: drives the runtime, on its thread.
        tally: what the server has counted; only the runtime's thread changes it.
        embedding: embeds outside workflows; None = no lane embeds.
        repriming: primes chunks again that requests met without primed KV; None = never.
        scrubbing: checks the corpus in the background; None = there is none.
        memory: reviews the split of the memory; None = no memory profile splits it.
        ending: ends the pieces.
    """

    plan: ServerPlan
    store: CorpusStore | None
    reads: CorpusStore | None
    clock: Clock
    thread: RuntimeThread
    lanes: tuple[ProcessLane, ...]
    roles: Mapping[str, tuple[str, ...]]
    loop: RuntimeLoop
    tally: Tally
    embedding: EmbeddingService | None
    repriming: Repriming | None
    scrubbing: Scrubbing | None
    memory: MemoryWatch | None
    ending: ExitStack

    def state(self) -> ServerState:
        """Return the state as of one moment; waits for the runtime's thread.

        Raises:
            HeddleError: the server is closed.
        """
        return self.thread.call(self._whole_state)

    def cancel_run(self, tenant: str, run: str) -> None:
        """Have the requests of another program's run ended, and return at once."""
        self.thread.post(lambda: self.loop.runtime.cancel_run(tenant, run, self.clock.now_s()))

    def peek(self) -> ServerState:
        """Return the state without waiting, and without the corpus's revision.

        Its parts may be a step apart, and its tally and its passes go on counting.
        """
        runtime = self.loop.runtime
        return ServerState(
            engines={name: _engine_state(lane) for name, lane in runtime.lanes.items()},
            lanes={lane.name: lane.health for lane in self.lanes},
            requests=len(runtime.requests.open),
            tally=self.tally,
            counters=replace(runtime.counters),
            roles=self.roles,
            embedding=None if self.embedding is None else self.embedding.state(),
            corpus=self._corpus_state(),
            repriming=None if self.repriming is None else self.repriming.state(),
            memory=None if self.memory is None else self.memory.state,
            answers=runtime.answers.state,
            predicted_wait_s=runtime.requests.admission.between_s or 0.0,
            failed_passes=tuple(sorted(runtime.planner.runner.failed)),
            cycle_passes=runtime.planner.runner.cycle_counts,
            leases=len(runtime.tasks.leases),
        )

    def _corpus_state(self) -> CorpusState | None:
        if self.store is None:
            return None
        name, damaged = self.store.place.name, self.store.health.damage.count
        if self.scrubbing is None:
            return CorpusState(name, damaged)
        return CorpusState(name, damaged, self.scrubbing.chunks, self.scrubbing.problem)

    def _whole_state(self) -> ServerState:
        now = self.peek()
        return replace(
            now,
            tally=deepcopy(self.tally),
            cycle_passes=deepcopy(now.cycle_passes),
            corpus_revision=self._revision(),
        )

    def _revision(self) -> int | None:
        try:
            return None if self.reads is None else self.reads.revision
        except (ConfigError, StorageError) as error:
            log.info("the corpus's revision is not known: %s", error)
            return None

    def lowered_regions(self, workflow: str) -> tuple[PGraph, ...]:
        """Return the graphs, before any pass, of what requests of a workflow have opened.

        Raises:
            HeddleError: the server is closed.
        """
        return self.thread.call(lambda: self.loop.runtime.planner.lowered_of(workflow))

    def close(self) -> None:
        """Cancel what is in flight and end every piece. Can be called twice."""
        if self.repriming is not None:
            self.repriming.stop()
        if self.thread.shut():
            self.ending.close()


def _engine_state(lane: Lane) -> EngineState:
    port = lane.port
    return EngineState(
        len(lane.scheduler.pending),
        lane.in_flight,
        lane.last,
        port.credits.used,
        port.tasks_by_lane if isinstance(port, Spread) else {},
    )


def start(
    config: ServerConfig,
    clock: Clock,
    tally: Tally,
    tracer: Tracer,
    submit: Callable[..., Handle],
    *,
    needs_vectors: bool,
    extensions: Extensions = NO_EXTENSIONS,
) -> RunningServer:
    """Start a server; what was started before an error is ended again.

    The pieces end in the order opposite to the one in which they are pushed on the stack. Each
    piece may use those that were pushed before it until it has ended:

    1. The event loop is pushed first: other threads may wake it until all of them have ended.
    2. The tools, the threads that tokenise, the corpus, the lanes and the thread of remote models
       outlive the runtime, which reads and commands them.
    3. The runtime's thread outlives all that lives on it.
    4. The repriming thread is joined while the runtime's thread still runs: it may wait for a call
       there, and its last request has ended with the runtime's loop.
    5. What lives on the runtime's thread is pushed by `assemble`: inline engines, the
       embedding pool, and the runtime's loop. The loop ends first, which cancels every request.
    6. The thread that scrubs the corpus, which reads nothing else, is pushed last.

    Args:
        config: what to start.
        clock: the time of everything.
        tally: counts requests and steps.
        tracer: sees every step, too.
        submit: Server.submit, for chunks that are primed again.
        needs_vectors: whether a corpus without vectors is refused.
        extensions: passes and engines of the user's own.

    Raises:
        ConfigError, InputError: the configuration, a model or the corpus can't be used.
    """
    check_pass_names(config.disabled_passes, extensions.all_passes)
    with ExitStack() as ending:
        thread = RuntimeThread()
        ending.callback(thread.dispose)
        tools = ToolThreads("tools", config.tool_threads, clock)
        ending.callback(tools.close)
        matching = ToolThreads("documents", 1, clock, PrimitiveKind.MATCHING)
        ending.callback(matching.close)
        tokenizing = WorkThreads("tokenize", TOKENIZING_THREADS)
        ending.callback(tokenizing.close)
        store = _open_corpus(config, ending, needs_vectors=needs_vectors)
        reads = None if store is None else store.within(ANSWER_S)
        if reads is not None:
            ending.callback(reads.close)
        cluster = open_cluster(config, ending)
        plan = plan_server(config, store, nodes=cluster.facts)
        _check_embedder(plan, store)
        _log_lanes(plan)
        specs = lane_specs(plan)
        limits = lane_limits(plan)
        start_lane = cluster.starter(plan.cluster, limits)
        lanes = start_lanes(specs, limits, start_lane) if config.engine_host == "process" else ()
        for lane in lanes:
            ending.callback(lane.close)
        remote = start_remote_ports(plan, clock, ending)
        thread.start()
        ending.callback(thread.stop)
        repriming = repriming_of(config, plan.generator, store, submit)
        if repriming is not None:
            ending.callback(repriming.join)
        parts = Parts(
            plan,
            store,
            reads,
            clock,
            thread,
            lanes,
            () if config.engine_host == "process" else specs,
            (tools, matching),
            tokenizing,
            remote,
            (tracer, tally),
            extensions,
            ending,
        )
        runtime = thread.call(lambda: assemble(parts))
        scrubbing = None if store is None else Scrubbing(store.health, config.scrub_hours, clock)
        if scrubbing is not None:
            ending.callback(scrubbing.end)
            scrubbing.start()
        return RunningServer(
            plan,
            store,
            reads,
            clock,
            thread,
            lanes,
            served_roles(plan, specs) if lanes else {},
            runtime.loop,
            tally,
            runtime.embedding,
            repriming,
            scrubbing,
            _memory_watch(plan, clock),
            ending.pop_all(),
        )


def _memory_watch(plan: ServerPlan, clock: Clock) -> MemoryWatch | None:
    splitter, split = plan.splitter, plan.placement.split
    if splitter is None or split is None:
        return None
    return MemoryWatch(splitter.curves, split, splitter.rate_per_s, clock)


def _open_corpus(
    config: ServerConfig, ending: ExitStack, *, needs_vectors: bool
) -> CorpusStore | None:
    if config.index is None:
        return None
    store = CorpusStore.open(config.index)
    ending.callback(store.close)
    outdated = store.stats().outdated
    if outdated:
        log.info(
            "%s: %d documents were indexed by an older Heddle: their passages name no place and may"
            " be cut; to mend it, run again: heddle index PATH... --into %s",
            config.index,
            outdated,
            config.index,
        )
    if needs_vectors and store.vector_count == 0:
        raise InputError(
            f"the corpus {str(config.index)!r} holds nothing to search; "
            f"run: heddle index PATH... --into {config.index}"
        )
    return store


def _check_embedder(plan: ServerPlan, store: CorpusStore | None) -> None:
    """Vectors of two models can't be compared: the wrong one would find the wrong passages."""
    stamp = None if store is None else store.embedder
    if stamp is None or not plan.embedder_name:
        return
    if stamp.model != plan.embedder_name:
        raise ConfigError(
            f"the corpus {str(plan.config.index)!r} was embedded with {stamp.model!r} and the "
            f"embedder here is {plan.embedder_name!r}: name the former as the embedder, or "
            "index anew"
        )
    if stamp.dtype != plan.embedder_dtype:
        log.warning(
            "questions are embedded in %s, the corpus in %s", plan.embedder_dtype, stamp.dtype
        )


def _log_lanes(plan: ServerPlan) -> None:
    """Log what embeds; engines in the server's own process have no lanes."""
    if plan.config.engine_host != "process" or plan.encoder is None:
        return
    for line in plan.device_lines():
        log.info("%s", line)
    for lane in plan.embedders:
        log.info("lane %s", lane.line())
