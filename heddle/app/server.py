"""Server: what its users call. The pieces behind it are put together in `app.assembly`."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from heddle.app.application import App
from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.assembly.start import start
from heddle.app.embedding_service import checked_texts
from heddle.app.indexing.documents import (
    DocumentChange,
    corpus_of,
    delete_document,
    document_of,
    put_document,
)
from heddle.app.models.model_files import ModelFiles
from heddle.app.observe.health import health_of
from heddle.app.observe.server_state import ServerState
from heddle.app.observe.tally import Tally
from heddle.app.priming.plan import PrimingPlan, PrimingProgress, PrimingReport
from heddle.app.priming.prime import NEIGHBOURS_DEFAULT, prime_chunks
from heddle.app.request_arguments import member_named, patience_s, tenant_name
from heddle.app.server_config import ServerConfig
from heddle.app.submission import admit, checked_submission, compiled_workflow
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import KvReuse, kv_reuse_of
from heddle.core.payloads import EmbedPayload, TextRole
from heddle.core.results import Vectors
from heddle.core.tasks import Optimizations, Priority
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.long_texts import LongTexts
from heddle.runtime.clock import SystemClock
from heddle.runtime.handle import Handle
from heddle.runtime.step_trace import StepTrace
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow


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
        self._running = start(self.config, self.clock, Tally(), self.trace, self.submit)

    @property
    def plan(self) -> ServerPlan:
        """What the configuration stands for on this machine."""
        return self._running.plan

    @property
    def store(self) -> CorpusStore | None:
        """The corpus, if there is one."""
        return self._running.store

    @property
    def generator(self) -> ModelFiles | None:
        """The LLM's files, if there is one."""
        return self.plan.generator

    # -- requests -----------------------------------------------------------------------------

    def app(self, workflow: str | RAGraph | Workflow) -> App:
        """Return a workflow ready to invoke: a ready-made one by name, or your own graph."""
        return App(self, compiled_workflow(workflow))

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
            tenant: who asks. The request finds this tenant's documents and those without a tenant.
                Tenants never share prefix caches.
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
        request = checked_submission(
            self.config,
            workflow,
            inputs,
            deadline_s=deadline_s,
            priority=priority,
            tenant=tenant,
            optimizations=optimizations,
            kv_reuse=kv_reuse,
            where=where,
        )
        return self._running.thread.call(lambda: admit(self._running, request))

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

        running = self._running

        def submit() -> Future[Vectors]:
            if running.embedding is None:
                raise ConfigError("this server has no embedder: give it an index")
            answer = running.embedding.submit(
                payload,
                seconds_left=self.config.limits.deadline_s if time_s is None else time_s,
                priority=level,
                tenant=owner,
                dimensions=dimensions,
            )
            running.loop.wake()
            return answer

        return running.thread.call(submit)

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
        embedding = self._running.embedding
        return "" if embedding is None else embedding.directory.name

    def prime(
        self,
        neighbours_max: int = NEIGHBOURS_DEFAULT,
        *,
        on_plan: Callable[[PrimingPlan], None] = lambda _: None,
        on_progress: Callable[[PrimingProgress], None] = lambda _: None,
    ) -> PrimingReport:
        """Compute and store the missing KV of the corpus's chunks, for `kv_reuse`.

        Each chunk gets its raw KV and then its primed one, computed on top of its nearest
        neighbours' (FusionRAG §3.1), which are of its own tenant and collection. Priming runs
        beside requests, in the time that they leave. Stopped and called again, it goes on.

        Primed KV stays until a neighbour is changed or deleted, or other chunks come nearer. The
        next call primes such a chunk again. After a change or a deletion, this server or a later
        one also does so without a call, once a request has met the chunk
        (`ServerConfig.reprime`).

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

        It is degraded when a lane is not ready, or when an engine runs degraded: then the answers
        are the same, and `ready` stays true.
        """
        return health_of(self._running.peek())

    def state(self) -> ServerState:
        """Return what the server knows of itself, as of one moment; waits for the runtime's thread.

        Raises:
            HeddleError: the server is closed.
        """
        return self._running.state()

    def close(self) -> None:
        """Cancel what is in flight, end the lanes, close the corpus. Can be called twice."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
