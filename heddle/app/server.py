"""Server: the engines, the runtime and its loop, behind a thread-safe front."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from heddle.app.application import App
from heddle.app.assembly.embedding_lanes import (
    EmbeddingLane,
    device_lines,
    embedding_pool,
    is_ready,
    plan_embedding_lanes,
    retrieval_embedder,
)
from heddle.app.assembly.lanes import (
    decoding_device,
    disaggregated,
    embedder_directory,
    embedder_dtype,
    has_embedding_lanes,
    hot_clusters_on,
    inline_hosts,
    lane_specs,
    llm_lane_names,
    plan_for,
    sharded,
)
from heddle.app.embedding_service import EmbeddingService, checked_texts
from heddle.app.indexing.documents import (
    DocumentChange,
    corpus_of,
    delete_document,
    document_of,
    put_document,
)
from heddle.app.models.embedder_source import embedder_facts
from heddle.app.models.model_source import model_directory
from heddle.app.observe.server_state import EngineState, ServerState
from heddle.app.observe.tally import RequestWatch, Tally
from heddle.app.priming.plan import PrimingPlan, PrimingProgress, PrimingReport
from heddle.app.priming.prime import NEIGHBOURS_DEFAULT, prime_chunks
from heddle.app.priming.reprime import Repriming, repriming_of
from heddle.app.request_arguments import input_values, member_named, patience_s, tenant_name
from heddle.app.server_config import ServerConfig
from heddle.core.commands import KvSent, Steer
from heddle.core.errors import ConfigError, HeddleError, InputError
from heddle.core.kv_reuse import KvReuse, kv_reuse_of
from heddle.core.payloads import EmbedPayload, TextRole
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.search_scope import where_of
from heddle.core.tasks import Optimizations, Priority
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.encoder_directory import EncoderDirectory
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.engines.vector.ivf.early_stop.setting import SPECULATIVE
from heddle.engines.vector.shards.port import LostShard
from heddle.hosts.devices import detect_devices
from heddle.hosts.lane_spec import LaneSpec
from heddle.hosts.machine import read_machine
from heddle.hosts.process import ProcessLane, start_lanes
from heddle.hosts.tool_threads import ToolThreads
from heddle.passes.runner import PassRunner
from heddle.runtime.batching import policy_named
from heddle.runtime.clock import SystemClock
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.runtime.step_trace import StepTrace
from heddle.runtime.supervision import LaneState
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import preset
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

log = logging.getLogger(__name__)
T = TypeVar("T")
STRENGTH = {Optimizations.OFF: 0, Optimizations.EXACT: 1, Optimizations.APPROX: 2}


class Server:
    """Runs workflows on a model and an index. (HedraRAG Listing 1)

    `Server(generator="reader", index="corpus-dir")` takes every field of ServerConfig by name.
    `kv_reuse` may also be a text such as "fusionrag,0.15", `long_texts` "cut" or "window".
    The engines live in processes of their own unless host="inline"; the runtime in a thread of
    this process. Use it as a context manager, or call close().

    Raises:
        ConfigError, InputError: the configuration, the model or the corpus can't be used.
    """

    def __init__(
        self,
        generator: str | Path | None = "reader",
        index: str | Path | None = None,
        **settings: Any,  # noqa: ANN401 - ServerConfig's fields, checked by it
    ) -> None:
        if "kv_reuse" in settings:
            settings["kv_reuse"] = kv_reuse_of(settings["kv_reuse"])
        if "long_texts" in settings:
            settings["long_texts"] = member_named(LongTexts, settings["long_texts"], "long_texts")
        try:
            self.config = ServerConfig(generator=generator, index=index, **settings)
        except TypeError as error:
            raise ConfigError(f"Server: {error}") from error
        self.clock = SystemClock()
        self.trace = StepTrace()
        self._tally = Tally()
        self._workflows: dict[str, Workflow] = {}
        self._lanes: tuple[ProcessLane, ...] = ()
        self._embedding: EmbeddingService | None = None
        self._repriming: Repriming | None = None
        self._event_loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # guards `_is_closed`, and nothing is posted after it is set
        self._is_closed = False
        self._started = ExitStack()  # how to end what was started, the last one first
        try:
            self._started.callback(self._event_loop.close)
            self._tools = ToolThreads("tools", self.config.tool_threads, self.clock)
            self._started.callback(self._tools.close)
            self.store = self._open_store()
            self.placement = plan_for(self.config, read_machine(), self.store)
            self._start()
        except BaseException:
            self.close()
            raise

    # -- requests -----------------------------------------------------------------------------

    def app(self, workflow: str | RAGraph | Workflow) -> App:
        """Return a workflow ready to invoke: a ready-made one by name, or your own graph."""
        return App(self, self._compiled(workflow))

    def add_request(self, question: str, workflow: str | RAGraph | Workflow) -> Handle:
        """Submit a question, as in HedraRAG's Listing 1."""
        return self.submit(workflow, question)

    def submit(
        self,
        workflow: "str | RAGraph | Workflow | App",
        inputs: str | Mapping[str, object],
        *,
        deadline_s: float | None = None,
        priority: Priority | str = Priority.NORMAL,
        tenant: str = "",
        optimizations: Optimizations | str | None = None,
        kv_reuse: KvReuse | str | None = None,
        where: Mapping[str, object] | None = None,
    ) -> Handle:
        """Admit a request and return its handle.

        Args:
            workflow: a ready-made workflow's name, a graph, or an App.
            inputs: the question, or a value for every input.
            deadline_s: seconds until the answer is worthless.
            priority: "interactive", "normal" or "bulk".
            tenant: whose request this is: it finds this tenant's documents and those of nobody;
                prefix caches are never shared between tenants.
            optimizations: "off", "exact" or "approx"; at most what the server allows.
            kv_reuse: how prompts use stored chunk KV, which needs "approx": a KvReuse or a text
                such as "fusionrag,0.15"; None = as the server does, where the request's
                `optimizations` are "approx".
            where: metadata that found documents must have, for every search: {"lang": "en",
                "year": [2020, 2021]} asks for the value, or one of the list, of each key.

        Raises:
            Busy: too many requests are in flight; nothing was started.
            InputError, WorkflowError, ConfigError: the request can't be run as it is.
        """
        compiled = self._compiled(workflow)
        values = input_values(inputs)
        mode = self._optimizations(optimizations)
        reuse = self.config.kv_reuse if kv_reuse is None else kv_reuse_of(kv_reuse)
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
        request_id = 0

        def cancel() -> None:
            with self._lock:
                if not self._is_closed:  # else closing has cancelled it
                    self._event_loop.call_soon_threadsafe(
                        lambda: self._loop.runtime.cancel(request_id, self.clock.now_s())
                    )

        handle = Handle(cancel)

        def submit() -> int:
            now_s = self.clock.now_s()
            push = handle.push
            sink = push if self._repriming is None else self._repriming.watched(push)
            watch = RequestWatch(self._tally, sink, self.clock, compiled, level, now_s)
            try:
                self._check_topk(compiled)
                admitted = self._loop.runtime.submit(
                    compiled,
                    values,
                    watch.push,
                    now_s=now_s,
                    deadline_s=time_s,
                    priority=level,
                    tenant=owner,
                    optimizations=mode,
                    kv_reuse=reuse,
                    where=wanted,
                )
            except HeddleError as error:
                self._tally.failed(level, error)
                raise
            self._loop.wake()
            return admitted

        request_id = self._on_loop(submit)
        return handle

    def embed(
        self,
        texts: Sequence[str],
        *,
        role: TextRole | str = TextRole.PLAIN,
        deadline_s: float | None = None,
        priority: Priority | str = Priority.NORMAL,
        tenant: str = "",
        dimensions: int | None = None,
        long_texts: LongTexts | str | None = None,
    ) -> Vectors:
        """Embed texts on the lanes that workflows use, or refuse at once. (WindVE)

        Args:
            texts: each gets a vector.
            role: "plain", "query" or "passage": which of the model's prompts stands before them.
            deadline_s: seconds until the vectors are worthless; None = the server's default.
            priority: "interactive", "normal" or "bulk"; bulk waits for what the others leave.
            tenant: whose texts they are; cached vectors are never shared between tenants.
            dimensions: the length of the vectors, where the model allows a shorter one.
            long_texts: "cut" or "window", for texts longer than the model takes, which the result
                counts; None = as the server does.

        Raises:
            Busy: they would be late; `wait_s` says when to come again.
            InputError: nothing to embed, or the deadline is shorter than the texts take alone.
            ConfigError: the server has no corpus and so no embedder.
            EngineError: a lane failed.
        """
        answer = self.submit_embedding(
            texts,
            role=role,
            deadline_s=deadline_s,
            priority=priority,
            tenant=tenant,
            dimensions=dimensions,
            long_texts=long_texts,
        )
        return answer.result()

    def submit_embedding(
        self,
        texts: Sequence[str],
        *,
        role: TextRole | str = TextRole.PLAIN,
        deadline_s: float | None = None,
        priority: Priority | str = Priority.NORMAL,
        tenant: str = "",
        dimensions: int | None = None,
        long_texts: LongTexts | str | None = None,
    ) -> Future[Vectors]:
        """Admit texts as `embed` does and return their future vectors, which may be cancelled."""
        in_windows = None
        if long_texts is not None:
            in_windows = member_named(LongTexts, long_texts, "long_texts") is LongTexts.WINDOW
        which = member_named(TextRole, role, "role")
        payload = EmbedPayload(checked_texts(texts), which, in_windows)
        time_s = patience_s(deadline_s)
        level = member_named(Priority, priority, "priority")
        owner = tenant_name(tenant)

        def submit() -> Future[Vectors]:
            if self._embedding is None:
                raise ConfigError("this server has no embedder: give it an index")
            answer = self._embedding.submit(
                payload,
                seconds_left=self.config.limits.deadline_s if time_s is None else time_s,
                priority=level,
                tenant=owner,
                dimensions=dimensions,
            )
            self._loop.wake()
            return answer

        return self._on_loop(submit)

    def upsert(
        self,
        document_id: str,
        text: str,
        *,
        title: str = "",
        metadata: Mapping[str, object] | None = None,
        tenant: str = "",
        collection: str = "",
    ) -> DocumentChange:
        """Put one document into the corpus, or a new version of it, and wait until it is found.

        Searches that came before find the version before. A file that brought the document brings
        it again when `heddle index` reads that file anew.

        Args:
            document_id: its own among the tenant's.
            text: what is cut into chunks and found.
            title: stands before each of them; "" = the id.
            metadata: values by key, which `where` may ask for.
            tenant: whose it is; "" = everybody's.
            collection: what its chunks' KV may be computed with; another one makes a new version.

        Raises:
            InputError: a field can't be used, or there is no text.
            ConfigError: the server has no corpus, or it was cut in another way.
            Busy, EngineError: it couldn't be embedded; called again, it goes on.
            StorageError: the disk refuses; what was there stays.
        """
        document = document_of(
            document_id,
            text,
            title=title,
            metadata=metadata,
            tenant=tenant_name(tenant),
            collection=collection,
        )
        return put_document(self, corpus_of(self.store), document)

    def delete(self, document_id: str, *, tenant: str = "") -> bool:
        """Delete one document, and its chunks' KV; return whether this tenant had it.

        Raises:
            ConfigError: the server has no corpus.
            StorageError: the disk refuses. The document stays, or is gone and the KV of its chunks
                goes with the next `heddle index`.
        """
        return delete_document(corpus_of(self.store), document_id, tenant=tenant_name(tenant))

    @property
    def embedder_name(self) -> str:
        """The embedder's name; empty where there is none."""
        return "" if self._embedding is None else self._embedding.directory.name

    def prime(
        self,
        neighbours_max: int = NEIGHBOURS_DEFAULT,
        *,
        on_plan: Callable[[PrimingPlan], None] = lambda _: None,
        on_progress: Callable[[PrimingProgress], None] = lambda _: None,
    ) -> PrimingReport:
        """Compute and store the KV of every chunk of the corpus, for `kv_reuse`; what is missing.

        Each chunk gets its raw KV and then its primed one, computed on top of its nearest
        neighbours' (FusionRAG §3.1), which are of its own tenant and collection. It runs beside
        requests, on what they leave. Stopped and run again, it goes on. Primed KV stays as it is
        until a neighbour is changed or deleted, or others have come nearer; the next call primes it
        anew. In the former case it is primed anew without a call as well, by this server or a later
        one, once a request has met the chunk (`ServerConfig.reprime`).

        Args:
            neighbours_max: neighbours of each chunk, fewer where more don't fit into the context.
            on_plan: told what it will take, before anything is computed.
            on_progress: told after each chunk.

        Raises:
            ConfigError: the server keeps no chunk KV, or chunk_kv_bytes or chunk_kv_disk_bytes
                can't hold it.
            StorageError: the corpus directory can't be written, or its disk is full.
            EngineError: the disk refused while it ran; what is stored by then stays.
        """
        return prime_chunks(self, neighbours_max, on_plan, on_progress)

    # -- life ---------------------------------------------------------------------------------

    def health(self) -> dict[str, object]:
        """Return the state of every lane and of the runtime, as /health shows it.

        It is degraded when a lane is not ready, or when an engine goes another way than meant:
        then the answers are right all the same, and `ready` stays true.
        """
        runtime = self._loop.runtime
        lanes = {lane.name: lane.health for lane in self._lanes}
        notes = {
            name: list(lane.last.notes)
            for name, lane in runtime.lanes.items()
            if lane.last is not None and lane.last.notes
        }
        is_ready = all(health.state is LaneState.READY for health in lanes.values())
        return {
            "status": "ok" if is_ready and not notes else "degraded",
            "ready": is_ready,
            "lanes": {
                name: {
                    "state": h.state.value,
                    "epoch": h.epoch,
                    "restarts": h.restarts,
                    "reason": h.reason,
                }
                for name, h in lanes.items()
            },
            "embedding": {} if self._embedding is None else self._embedding.health(),
            "repriming": {} if self._repriming is None else asdict(self._repriming.state()),
            "recall": {
                name: asdict(lane.last.recall)
                for name, lane in runtime.lanes.items()
                if lane.last is not None and lane.last.recall is not None
            },
            "notes": notes,
            "requests": len(runtime.requests.open),
            "finished": runtime.counters.finished,
            "failed": runtime.counters.failed,
            "retries": runtime.counters.retries,
            "predicted_wait_s": runtime.requests.admission.between_s or 0.0,
        }

    def state(self) -> ServerState:
        """Return what the server knows of itself, as of one moment; waits for the runtime's thread.

        Raises:
            HeddleError: the server is closed.
        """
        return self._on_loop(self._state)

    def close(self) -> None:
        """Cancel what is in flight, end the lanes, close the corpus. Can be called twice."""
        if self._repriming is not None:
            self._repriming.stop()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._started.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _state(self) -> ServerState:
        runtime = self._loop.runtime
        return ServerState(
            engines={
                name: EngineState(len(lane.scheduler.pending), lane.in_flight, lane.last)
                for name, lane in runtime.lanes.items()
            },
            lanes={lane.name: lane.health for lane in self._lanes},
            requests=len(runtime.requests.open),
            tally=deepcopy(self._tally),
            counters=replace(runtime.counters),
            embedding=None if self._embedding is None else self._embedding.state(),
            corpus_revision=None if self.store is None else self.store.revision,
            repriming=None if self._repriming is None else self._repriming.state(),
        )

    # -- construction -------------------------------------------------------------------------

    def _open_store(self) -> CorpusStore | None:
        if self.config.index is None:
            return None
        store = CorpusStore.open(Path(self.config.index))
        self._started.callback(store.close)
        if self.config.needs_vectors and store.vector_count == 0:
            raise InputError(
                f"the corpus {str(self.config.index)!r} holds nothing to search; "
                f"run: heddle index PATH... --into {self.config.index}"
            )
        self._check_embedder(store)
        return store

    def _check_embedder(self, store: CorpusStore) -> None:
        """Vectors of two models can't be compared: the wrong one would find the wrong passages."""
        facts = embedder_facts(self.config.embedder)
        stamp = store.embedder
        if stamp is not None and stamp.model != facts.name:
            raise ConfigError(
                f"the corpus {str(self.config.index)!r} was embedded with {stamp.model!r} and the "
                f"embedder here is {facts.name!r}: name the former as the embedder, or index anew"
            )

    def _start(self) -> None:
        stamp = self.store.embedder if self.store is not None else None
        dtype = embedder_dtype(self.config.dtype, stamp, read_machine())
        if stamp is not None and stamp.dtype != dtype:
            log.warning("questions are embedded in %s, the corpus in %s", dtype, stamp.dtype)
        hot = hot_clusters_on(self.config, read_machine())
        lanes = self._embedding_lanes(dtype)
        specs = lane_specs(self.config, self.placement, dtype, lanes, hot)
        if self.config.host == "process":
            self._lanes = start_lanes(specs)
            for lane in self._lanes:
                self._started.callback(lane.close)
        thread = threading.Thread(
            target=self._event_loop.run_forever, name="heddle-runtime", daemon=True
        )
        thread.start()
        self._started.callback(thread.join)
        self._started.callback(self._event_loop.call_soon_threadsafe, self._event_loop.stop)
        self._repriming = repriming_of(self)
        if self._repriming is not None:
            self._started.callback(self._repriming.join)  # behind the end of its requests
        self._loop = self._on_loop(lambda: self._assemble(specs))
        self._close_on_loop(self._loop.close)

    def _embedding_lanes(self, dtype: str) -> tuple[EmbeddingLane, ...]:
        """Return the lanes that embed beside the index's."""
        if not has_embedding_lanes(self.config):
            return ()
        machine = read_machine()
        devices = detect_devices(machine)
        for line in device_lines(devices, self.config.heterogeneous, self.placement):
            log.info("%s", line)
        lanes = plan_embedding_lanes(
            devices, self.placement, dtype, decodes_on=decoding_device(self.config, machine)
        )
        for lane in lanes or (retrieval_embedder(self.placement, dtype, self.config.shards),):
            log.info("lane %s", lane.line())
        return lanes

    def _close_on_loop(self, close: Callable[[], None]) -> None:
        """Have `close()` call this on the runtime's thread, before what was started earlier."""
        self._started.callback(lambda: self._post(close).result())

    def _assemble(self, specs: tuple[LaneSpec, ...]) -> RuntimeLoop:
        """Join ports, runtime and loop; runs on the loop's thread, where inline engines step."""
        ports: list[EnginePort] = [port for lane in self._lanes for port in lane.ports.values()]
        if self.config.host == "inline":
            for host in inline_hosts(specs, self.clock):
                self._close_on_loop(host.close)
                ports.append(host)
        ports = self._disaggregated(self._sharded(ports))
        ports = self._pooled(ports)
        runner = PassRunner(self.clock, disabled=self.config.disabled_passes)
        runtime = Runtime(
            ports=(*ports, self._tools),
            planner=RegionPlanner(runner),
            policy=policy_named(self.config.batching),
            limits=self.config.limits,
            tokenizer=self._tokenizer(),
            passages=self.store,
            numerics="batch-dependent",
            tracers=(self.trace, self._tally),
            clock=self.clock,
            speculates=self.config.search == SPECULATIVE,
        )
        loop = RuntimeLoop(runtime, self.clock, self._event_loop)
        loop.start()
        return loop

    def _pooled(self, ports: list[EnginePort]) -> list[EnginePort]:
        """Put the embedding lanes behind one port, the door of the embedding service."""
        lanes = [port for port in ports if PrimitiveKind.EMBEDDING in port.kinds]
        if not lanes:
            return ports
        directory = EncoderDirectory.open(str(embedder_directory(self.config)))
        llm = next((port for port in ports if PrimitiveKind.DECODING in port.kinds), None)
        pool = embedding_pool(
            lanes,
            TokenEstimate(directory.max_tokens, self.config.long_texts),
            self.clock,
            tokens_max=self.placement.waiting_tokens,
            fits_prior=directory.is_packaged,
            lender=llm if self.placement.is_lent else None,
        )

        def give_back(task_id: int) -> None:
            with self._lock:
                if not self._is_closed:  # else closing has ended it
                    self._event_loop.call_soon_threadsafe(pool.cancel, task_id)

        self._embedding = EmbeddingService(pool, directory, give_back, self.clock)
        self._close_on_loop(pool.close)
        return [*(port for port in ports if port not in lanes), pool]

    def _sharded(self, ports: list[EnginePort]) -> list[EnginePort]:
        """Put the lanes of a sharded index behind one port."""
        parts = [port for port in ports if PrimitiveKind.SEARCHING in port.kinds]
        if len(parts) < 2:
            return ports
        whole = sharded(parts, LostShard(self.config.lost_shard), is_ready)
        return [*(port for port in ports if port not in parts), whole]

    def _disaggregated(self, ports: list[EnginePort]) -> list[EnginePort]:
        """Put LLM lanes with roles behind one port, which tells a vector pool what they send."""
        names = llm_lane_names(self.config)
        lanes = [port for port in ports if port.name in names]
        if len(lanes) < 2:
            return ports
        pools = [p for p in ports if self.config.pool and PrimitiveKind.SEARCHING in p.kinds]

        def on_sent(kv_sent: KvSent) -> None:
            for pool in pools:
                pool.send(Steer(kv_sent=kv_sent))

        whole = disaggregated(lanes, self.config, is_ready, on_sent)
        return [*(port for port in ports if port not in lanes), whole]

    def _tokenizer(self) -> PromptTokenizer | None:
        if self.config.generator is None:
            return None
        return PromptTokenizer.from_directory(model_directory(self.config.generator))

    def _compiled(self, workflow: "str | RAGraph | Workflow | App") -> Workflow:
        if isinstance(workflow, App):
            return workflow.workflow
        if isinstance(workflow, Workflow):
            return workflow
        if isinstance(workflow, RAGraph):
            return workflow.compile()
        if workflow not in self._workflows:
            self._workflows[workflow] = preset(workflow).compile()
        return self._workflows[workflow]

    def _check_topk(self, workflow: Workflow) -> None:
        """Refuse a search for more than the corpus holds; runs on the runtime's thread."""
        for node in workflow.nodes.values():
            if self.store is None or not isinstance(node, RetrievalNode) or node.allow_fewer:
                continue
            held = self.store.count_vectors(node.topk)
            if held < node.topk:
                raise InputError(
                    f"retrieval node {node.id!r}: topk is {node.topk} and the corpus holds {held} "
                    "chunks; lower topk, or add the node with allow_fewer=True"
                )

    def _optimizations(self, wanted: Optimizations | str | None) -> Optimizations:
        if wanted is None:
            return self.config.optimizations
        mode = member_named(Optimizations, wanted, "optimizations")
        if STRENGTH[mode] > STRENGTH[self.config.optimizations]:
            raise ConfigError(
                f"optimizations={mode.value!r} is more than this server allows "
                f"({self.config.optimizations.value!r})"
            )
        return mode

    def _on_loop(self, work: Callable[[], T]) -> T:
        """Run on the runtime's thread and return the result, or raise what it raised."""
        with self._lock:
            if self._is_closed:
                raise HeddleError("the server is closed")
            done = self._post(work)
        return done.result()

    def _post(self, work: Callable[[], T]) -> Future[T]:
        """Queue work for the runtime's thread; it runs in the order of these calls."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self._event_loop.call_soon_threadsafe(run)
        return done
