"""Server: what its users call. The pieces behind it are put together in `app.assembly`."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Self, Unpack

from heddle.app.application import App
from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.assembly.start import start
from heddle.app.embedding_service import checked_texts
from heddle.app.extensions import NO_EXTENSIONS, Extensions, OwnEngine
from heddle.app.indexing.chunk_lengths import chunking_for
from heddle.app.indexing.documents import (
    DocumentChange,
    corpus_of,
    delete_document,
    document_of,
    put_document,
)
from heddle.app.models.model_files import ModelFiles
from heddle.app.observe.health import given_up, health_of
from heddle.app.observe.request_observer import RequestObserver, observed, observed_embedding
from heddle.app.observe.server_state import ServerState
from heddle.app.observe.tally import Tally
from heddle.app.priming.plan import PrimingPlan, PrimingProgress, PrimingReport
from heddle.app.priming.prime import NEIGHBOURS_DEFAULT, prime_chunks
from heddle.app.priming.request import NeighboursWanted
from heddle.app.remote.auto_model import without_auto
from heddle.app.request_options import CheckedEmbedding, EmbeddingOptions, RequestOptions
from heddle.app.requests.arguments import tenant_name
from heddle.app.requests.call_identity import current_call
from heddle.app.requests.constraint_checks import ConstraintChecks
from heddle.app.reranking import (
    Ranking,
    RerankOptions,
    ranking_inputs,
    ranking_of,
    ranking_workflow,
)
from heddle.app.search import SearchOptions, SearchResult, search_request
from heddle.app.server_config import ServerConfig
from heddle.app.server_settings import ServerSettings
from heddle.app.submission import Submission, admit, admit_embedding, compiled_workflow
from heddle.core.kv_reuse import PrimedWith
from heddle.core.payloads import EmbedPayload
from heddle.core.ports import EnginePort, SteppedEngine
from heddle.core.results import Vectors
from heddle.corpus.chunking import Chunking
from heddle.corpus.store import CorpusStore
from heddle.engines.reading.installed import EXTRACT
from heddle.graph.pgraph import PGraph
from heddle.passes.runner import CyclePass, GraphPass
from heddle.runtime.clock import SystemClock
from heddle.runtime.events import Answer
from heddle.runtime.handle import Handle
from heddle.runtime.step_trace import StepTrace
from heddle.workflow.function import WorkflowFunction
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.searches import ChangedWorkflows
from heddle.workflow.workflow import Workflow

log = logging.getLogger(__name__)


class Server:
    """Runs workflows on a model and an index. (HedraRAG Listing 1)

    `Server(index="corpus-dir")` quotes answers from a corpus; `generator` names a model that writes
    them. It takes every field of ServerConfig as a
    keyword; texts stand for enums and for a KvReuse, as in `ServerConfig.of`. The engines live in
    processes of their own unless engine_host="inline"; the runtime lives in a thread of this
    process. Use it as a context manager, or call close().

    Args:
        generator: the model that answers; None = no model does.
        index: the corpus directory; None = no retrieval.
        passes: optimizer passes of your own, which run behind Heddle's.
        engines: engines of your own, which carry out their kinds of primitives alone. A
            SteppedEngine gets a thread of the server, and at most 64 rows at once unless it
            stands in an OwnEngine.
        settings: the other fields of ServerConfig.

    Raises:
        ConfigError, InputError: the configuration, the model or the corpus can't be used.

    Example:
        from heddle import Server

        with Server(index="corpus") as server:
            answer = server.ask("Who founded Oak Mill?")
            print(answer.text, "-", answer.quotes[0].sentence)
            # Ann Reed - Oak Mill was founded by Ann Reed in 1823.
    """

    def __init__(
        self,
        generator: str | Path | None = EXTRACT,
        index: str | Path | None = None,
        *,
        passes: Sequence[GraphPass | CyclePass] = (),
        engines: Sequence[OwnEngine | SteppedEngine | EnginePort] = (),
        **settings: Unpack[ServerSettings],
    ) -> None:
        extensions = Extensions.of(passes, engines)
        config = ServerConfig.of(generator, index, settings)
        self._begin(config, extensions, needs_vectors=True)

    @classmethod
    def from_config(
        cls,
        config: ServerConfig,
        *,
        needs_vectors: bool = True,
        extensions: Extensions | None = None,
    ) -> Self:
        """Start a server with this configuration.

        Args:
            config: every setting of the server.
            needs_vectors: refuse a corpus without vectors; indexing says False.
            extensions: passes and engines of your own; None = there are none.

        Raises:
            ConfigError, InputError: the model or the corpus can't be used.
        """
        server = cls.__new__(cls)
        server._begin(config, extensions or NO_EXTENSIONS, needs_vectors=needs_vectors)
        return server

    def _begin(self, config: ServerConfig, extensions: Extensions, *, needs_vectors: bool) -> None:
        config, words = without_auto(config)
        if words:
            log.info("model auto %s", words)
        self.config = config
        self.clock = SystemClock()
        self.trace = StepTrace()
        self.observer: RequestObserver | None = None
        self._running = start(
            config,
            self.clock,
            Tally(),
            self.trace,
            self.submit,
            needs_vectors=needs_vectors,
            extensions=extensions,
        )
        self._changed = ChangedWorkflows(
            self.plan.prompts, self.plan.writing, self.plan.reranking.is_on
        )
        self._constraints = ConstraintChecks(self.plan)

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

    def app(self, workflow: str | RAGraph | WorkflowFunction | Workflow) -> App:
        """Return a workflow ready to invoke: a ready-made one by name, or your own graph."""
        return App(self, compiled_workflow(workflow))

    def ask(self, question: str, **options: Unpack[RequestOptions]) -> Answer:
        """Answer a question with the workflow of requests that name none.

        That is `quote` where the extractor answers, and `oneshot` where a model writes.

        Args:
            question: the question.
            options: see RequestOptions.

        Raises:
            Busy, InputError, ConfigError, EngineError, DeadlineExceeded: it has no answer.

        Example:
            answer = server.ask("Who started the Sawle Ferry?", max_tokens=16, deadline_s=30)
            print(answer.text)  # Mary Dunn
        """
        return self.app(self.config.default_workflow).invoke(question, **options)

    def add_request(
        self, question: str, workflow: str | RAGraph | WorkflowFunction | Workflow
    ) -> Handle:
        """Submit a question, as in HedraRAG's Listing 1."""
        return self.submit(workflow, question)

    def submit(
        self,
        workflow: "str | RAGraph | WorkflowFunction | Workflow | App",
        inputs: str | Mapping[str, object],
        **options: Unpack[RequestOptions],
    ) -> Handle:
        """Admit a request and return its handle.

        Args:
            workflow: a ready-made workflow's name, a graph, or an App.
            inputs: the question, or a value for every input.
            options: see RequestOptions.

        Raises:
            Busy: too many requests are in flight; nothing was started.
            InputError, WorkflowError, ConfigError: the request can't be run as it is.

        Example:
            questions = ["Who founded Oak Mill?", "Who started the Sawle Ferry?"]
            handles = [server.submit("oneshot", one, priority="bulk") for one in questions]
            print([handle.result().text for handle in handles])  # ['Ann Reed', 'Mary Dunn']
        """
        compiled = compiled_workflow(workflow)
        with observed(self.observer, compiled.name) as heard:
            request = Submission.of(
                self.config, self._changed, compiled, inputs, options, self.chunking
            )
            self._constraints.check(request.workflow)
            return self._running.thread.call(lambda: admit(self._running, request, heard))

    def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchResult:
        """Find passages, and wait for them; no model writes or quotes an answer.

        Args:
            query: what to search for.
            options:
                topk: how many passages; fewer where the corpus has fewer; default: 5.
                hybrid: search by words (BM25) as well as by meaning.
                rerank: have a model read four times as many passages with the query, and keep the
                    best; the server needs a model that ranks.
                where, tenant, deadline_s, priority: as for `submit`.

        Raises:
            Busy: too many requests are in flight; nothing was started.
            InputError, ConfigError: the search can't be run as it is.
            HeddleError: it failed.

        Example:
            found = server.search("opening hours in the evening", topk=1, hybrid=True)
            print(found.passages[0].title)  # library
        """
        workflow, asked = search_request(options)
        answer = self.app(workflow).invoke({"query": query}, **asked)
        return SearchResult(answer.passages, answer.receipt)

    def submit_search(self, query: str, **options: Unpack[SearchOptions]) -> Handle:
        """Admit a search as `search` does; its handle's answer has the passages and no text."""
        workflow, asked = search_request(options)
        return self.submit(workflow, {"query": query}, **asked)

    def rerank(self, query: str, texts: Sequence[str], **options: Unpack[RerankOptions]) -> Ranking:
        """Have the model that ranks read texts with a query, and wait; the best come first.

        Args:
            query: what the texts are to answer.
            texts: up to 1,000, of 1,000,000 characters together.
            options: tenant, deadline_s, priority: as for `submit`.

        Raises:
            Busy: too many requests are in flight; nothing was started.
            InputError, ConfigError: a value can't be used, or no model ranks.
            HeddleError: it failed.
        """
        inputs = ranking_inputs(query, texts)
        return ranking_of(self.app(ranking_workflow()).invoke(inputs, **options), self.config)

    def submit_rerank(
        self, query: str, texts: Sequence[str], **options: Unpack[RerankOptions]
    ) -> Handle:
        """Admit a ranking as `rerank` does; `ranking_of` reads it from its handle's answer."""
        return self.submit(ranking_workflow(), ranking_inputs(query, texts), **options)

    def embed(self, texts: Sequence[str], **options: Unpack[EmbeddingOptions]) -> Vectors:
        """Embed texts on the lanes that workflows use, or refuse at once. (WindVE)

        Args:
            texts: each gets a vector.
            options:
                role: "plain", "query" or "passage": the prompt of the model to put before them.
                deadline_s: seconds until the vectors are worthless; None = the server's default.
                priority: "interactive", "normal" or "bulk", which waits for the others and is never
                    refused for its time; None = bulk, or normal with a deadline_s.
                tenant: the tenant of the texts; cached vectors are never shared between tenants.
                dimensions: the length of the vectors, where the model allows a shorter one.
                long_texts: "cut" or "window", for texts longer than the model's limit; the result
                    counts them; None = as the server does.

        Raises:
            Busy: they would be late; `wait_s` says when to come again.
            InputError: nothing to embed, or the deadline is shorter than the texts take alone.
            ConfigError: the server has no corpus and so no embedder.
            DeadlineExceeded: they are late after all, or their lane is away.
            EngineError: a lane failed.
        """
        return self.submit_embedding(texts, **options).result()

    def submit_embedding(
        self, texts: Sequence[str], **options: Unpack[EmbeddingOptions]
    ) -> Future[Vectors]:
        """Admit texts as `embed` does and return their future vectors, which may be cancelled."""
        identity = current_call()
        asked = CheckedEmbedding.of(options if identity is None else identity.applied(options))
        payload = EmbedPayload(checked_texts(texts), asked.role, asked.in_windows)
        running, default_s = self._running, self.config.deadline_s
        return observed_embedding(
            self.observer,
            self.embedder_name,
            lambda: running.thread.call(
                lambda: admit_embedding(running, payload, asked, default_s)
            ),
        )

    def cancel_run(self, run: str, *, tenant: str = "") -> None:
        """Ask for the end of all requests of another program's run, and return at once."""
        self._running.cancel_run(tenant, run)

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
            ConfigError: the server has no corpus.
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
        return put_document(self, corpus_of(self.store), document, self.chunking())

    def delete(self, document_id: str, *, tenant: str = "") -> bool:
        """Delete one document, and its chunks' KV; return whether this tenant had it.

        Raises:
            ConfigError: the server has no corpus.
            StorageError: the disk refuses. The document stays, or is gone and the KV of its chunks
                goes with the next `heddle index`.
        """
        return delete_document(corpus_of(self.store), document_id, tenant=tenant_name(tenant))

    def chunking(self) -> Chunking:
        """Return how texts are cut: as the corpus's last run did."""
        embedding = self._running.embedding
        encoder = None if embedding is None else embedding.directory
        return chunking_for(encoder, corpus_of(self.store))

    @property
    def embedder_name(self) -> str:
        """The embedder's name; empty where there is none."""
        embedding = self._running.embedding
        return "" if embedding is None else embedding.directory.name

    def prime(
        self,
        neighbours_max: int = NEIGHBOURS_DEFAULT,
        *,
        primed_with: PrimedWith | str = "preceding",
        on_plan: Callable[[PrimingPlan], None] = lambda _: None,
        on_progress: Callable[[PrimingProgress], None] = lambda _: None,
    ) -> PrimingReport:
        """Compute and store the missing KV of the corpus's chunks, for `kv_reuse`.

        Each chunk gets its raw KV and then its primed one, computed on top of its neighbours'
        (FusionRAG §3.1), which are of its own tenant and collection. Priming runs beside requests,
        in the time that they leave. Stopped and called again, it goes on. It primes a chunk again
        whose neighbours have changed; so does a server without a call, once a request has met the
        chunk (`ServerConfig.reprime`).

        Args:
            neighbours_max: neighbours of each chunk, fewer where more don't fit into the context.
            primed_with: "preceding": what precedes the chunk in its document, then the nearest;
                "nearest": these alone, for `kv_reuse` with the option `nearest`.
            on_plan: called with the plan, before anything is computed.
            on_progress: called after each chunk.

        Raises:
            ConfigError: the server keeps no chunk KV or too little, or primed_with is unknown.
            StorageError: the corpus directory can't be written, or its disk is full.
            EngineError: the disk refused on the way; KV that is stored already stays.
        """
        wanted = NeighboursWanted.of(neighbours_max, primed_with)
        return prime_chunks(self, wanted, on_plan, on_progress)

    # -- life ---------------------------------------------------------------------------------

    def health(self) -> dict[str, object]:
        """Return the state of every lane and of the runtime, as /health shows it.

        It is ready while each role (`embedding`, `search`, `reading`, `llm`) has a ready lane, and
        degraded where a lane is not ready, an engine lacks something, such as disk space, or chunks
        are damaged. If it is ready then, answers lack only damaged passages and lost shards.
        """
        return health_of(self._running.peek())

    def given_up(self) -> dict[str, str]:
        """Return why lanes were given up whose role has no other lane left, by their names.

        Empty with `on_lane_failure="retry"`.
        """
        return {} if self.config.on_lane_failure == "retry" else given_up(self._running.peek())

    def lowered_regions(self, workflow: str) -> tuple[PGraph, ...]:
        """Return the graphs, before any pass, of what requests of a workflow have opened.

        Those that were opened last come last; some hundred are kept.

        Raises:
            HeddleError: the server is closed.
        """
        return self._running.lowered_regions(workflow)

    def state(self) -> ServerState:
        """Return what the server knows of itself, as of one moment; waits for the runtime's thread.

        Raises:
            HeddleError: the server is closed.
        """
        state = self._running.state()
        return state if self.observer is None else replace(state, traces=self.observer.counts)

    def close(self) -> None:
        """Cancel what is in flight, end the lanes, close the corpus. Can be called twice."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
