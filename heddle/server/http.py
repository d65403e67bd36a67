"""The HTTP application: questions, searches, rankings and embeddings, and how the server does.

POST /v1/ask, /v1/search, /v1/rerank and /v1/embeddings; GET /v1/workflows, /health, /ready,
/version and /metrics; OpenAI's routes. POST and DELETE /v1/documents change the corpus, where the
server takes changes, as do /v1/files and /v1/vector_stores (stores/).
"""

import asyncio
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive

from heddle import __version__
from heddle.app.observe.health import unserved_roles
from heddle.app.reranking import ranking_of
from heddle.app.server import Server
from heddle.core.errors import Cancelled, HeddleError, InputError
from heddle.core.results import Vectors
from heddle.server.allowed_hosts import AllowedHosts
from heddle.server.api_page.route import add_api_page
from heddle.server.ask_request import AskRequest, read_ask
from heddle.server.bodies.unknown_fields import UnknownFields
from heddle.server.changes.change_threads import ChangeThreads
from heddle.server.concurrency_limit import ConcurrencyLimit
from heddle.server.document_request import DocumentRequest, change_json, read_document
from heddle.server.drain import Drain
from heddle.server.draining import Draining
from heddle.server.embedding_request import EmbeddingRequest, embeddings_json, read_embedding
from heddle.server.event_stream import (
    STREAMED,
    EventStream,
    cancel_on_disconnect,
    cancelled_with_client,
)
from heddle.server.json_body import body_schema
from heddle.server.keys.access import TokenMeter, own_tenant
from heddle.server.keys.key_gate import KeyGate
from heddle.server.keys.key_ring import KeyRing
from heddle.server.limits import REQUESTS_MAX
from heddle.server.metrics import MetricsPage
from heddle.server.openai.api_error import ApiError
from heddle.server.openai.routes import add_openai
from heddle.server.page.routes import add_page
from heddle.server.request_ids import BROKEN, HEADER, RequestIds, current_request_id
from heddle.server.rerank_request import RerankRequest, ranking_json, read_rerank
from heddle.server.runs.call_identities import CallIdentities
from heddle.server.runs.routes import add_runs
from heddle.server.search_request import SearchRequest, read_search
from heddle.server.stores.desk import Desk
from heddle.server.stores.doors import add_stores
from heddle.server.stores.file_indexing import FileIndexing
from heddle.server.submitting import submit, workflow_named
from heddle.server.wire import (
    Json,
    answer_json,
    encode_json,
    error_body,
    error_headers,
    error_json,
    error_status,
    search_json,
    status_error_json,
)
from heddle.workflow.workflow import Workflow

DRAINING: Final = "draining"
CHANGES_AT_ONCE: Final = 4  # documents that wait for their vectors; others need threads, too

# Every status but those that a route names.
_ERROR: Final = {
    "description": "An error",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["message", "type", "param", "code"],
                        "properties": {
                            "message": {"type": "string"},
                            "type": {"type": "string"},
                            "param": {"type": ["string", "null"]},
                            "code": {"type": ["string", "null"]},
                        },
                    }
                },
            }
        }
    },
}
_NOT_READY: Final[dict[int | str, dict[str, Any]]] = {503: {"description": "It takes no work"}}
_MEASURED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/openmetrics-text": {}}}
}
# Written out: the route reads the query itself, to refuse one that names an id twice.
_DELETE_PARAMETERS: Final = [
    {
        "name": "id",
        "in": "query",
        "required": True,
        "schema": {"type": "string"},
        "description": "id of the document",
    },
    {
        "name": "tenant",
        "in": "query",
        "required": False,
        "schema": {"type": "string"},
        "description": "tenant whose document it is; none = a document without a tenant",
    },
]


def create_app(
    server: Server,
    workflows: Mapping[str, Workflow],
    *,
    takes_changes: bool = False,
    requests_max: int = REQUESTS_MAX,
    allowed_hosts: Collection[str] = (),
    instance: str = "",
    drain: Drain | None = None,
    keys: KeyRing | None = None,
    inline_sources: bool = False,
    file_indexing: FileIndexing | None = None,
    changes: ChangeThreads | None = None,
) -> FastAPI:
    """Return the ASGI application of a server.

    Args:
        server: answers the questions; the caller closes it.
        workflows: what clients may ask for, by name.
        takes_changes: whether clients may put and delete documents.
        requests_max: HTTP requests under way at once; more are refused.
        allowed_hosts: names that clients may call it by, beside addresses and localhost; "*" = any.
        instance: stands in /health, so that a client knows this server from another; "" = nothing.
        drain: counts the requests under way, and says when no more are taken; None = never.
        keys: what clients must have one of; None = every client is served.
        inline_sources: whether answers by OpenAI's API end with their sources in Markdown.
        file_indexing: takes files into vector stores; None = neither can be changed.
        changes: the threads that change the corpus; the caller closes them; None = own ones.
    """
    # Without redirects of slashes: they would send a client where its Host header says.
    app = FastAPI(
        title="Heddle",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={"default": _ERROR},
    )
    app.state.unknown_fields = UnknownFields()
    drain = Drain() if drain is None else drain
    changes = ChangeThreads() if changes is None else changes
    # The last one added comes first.
    app.add_middleware(CallIdentities)
    app.add_middleware(AllowedHosts, names=allowed_hosts)
    app.add_middleware(ConcurrencyLimit, requests_max=requests_max)
    app.add_middleware(Draining, drain=drain)
    if keys is not None:
        app.add_middleware(KeyGate, ring=keys)
    app.add_middleware(RequestIds)
    _add_error_replies(app)

    @app.post(
        "/v1/ask",
        response_model=None,
        responses=STREAMED,
        openapi_extra=body_schema(AskRequest),
    )
    async def ask(asked: Annotated[AskRequest, Depends(read_ask)], request: Request) -> Response:
        """Answer a question.

        The reply has `answer`, `passages` (each with `title`, `text`, `document_id`, `chunk_id`,
        `distance`, `score`, `copies` and `place`: `file`, `page`, `heading`, `start` and `end`; in
        `copies` other places stands the same text) and `receipt`. Where the extractor answers,
        `quotes` has each answer word for word, with its `sentence`, `score`, place, and its
        characters in the document; without one, `nearest` has the nearest places. With `timeline`
        it has when each stage waited and ran, and the critical path.

        With `stream` it is a stream of server-sent events:
        `node_started`, `retrieved`, `token`, `node_finished`, and `answer` or `error` at the end.
        A client that disconnects cancels its request.
        """
        workflow = workflow_named(asked.workflow or server.config.default_workflow, workflows)
        handle = await submit(server, workflow, asked.values, asked.options)
        meter = TokenMeter(request.scope)
        meter.admit(asked)
        if asked.stream:
            return EventStream(handle, meter.take, timeline=asked.timeline)
        async with cancelled_with_client(handle, request.receive):
            answer = await handle
        meter.take(answer)
        return _reply(200, answer_json(answer, timeline=asked.timeline))

    @app.post("/v1/search", response_model=None, openapi_extra=body_schema(SearchRequest))
    async def search(
        asked: Annotated[SearchRequest, Depends(read_search)], request: Request
    ) -> Response:
        """Find passages; no model writes or quotes an answer.

        The reply has `passages`, as those of an answer, the best first, and `receipt`. A client
        that disconnects cancels its search.
        """
        options = asked.model_dump()
        start = partial(server.submit_search, options.pop("query"), **options)
        handle = await asyncio.to_thread(start)
        meter = TokenMeter(request.scope)
        meter.admit(asked)
        async with cancelled_with_client(handle, request.receive):
            answer = await handle
        meter.take(answer)
        return _reply(200, search_json(answer))

    @app.post("/v1/embeddings", response_model=None, openapi_extra=body_schema(EmbeddingRequest))
    async def embed(
        asked: Annotated[EmbeddingRequest, Depends(read_embedding)], request: Request
    ) -> Response:
        """Embed texts, as OpenAI's endpoint of that name does.

        The reply also has `truncated` and `windowed`: how many texts were longer than the model's
        limit, and were cut or read in windows.
        """
        start = partial(
            server.submit_embedding,
            asked.texts,
            role=asked.role,
            deadline_s=asked.deadline_s,
            priority=asked.priority,
            tenant=asked.tenant,
            dimensions=asked.dimensions,
            long_texts=asked.long_texts,
        )
        answer = await asyncio.to_thread(start)
        meter = TokenMeter(request.scope)
        meter.admit(asked)
        vectors = await _awaited(answer, request.receive)
        meter.settle(vectors.tokens)
        return _reply(200, embeddings_json(asked, vectors, server.embedder_name))

    add_openai(app, server, workflows, inline_sources=inline_sources)
    _add_reranking(app, server)
    _add_documents(app, server, changes, takes_changes=takes_changes)
    add_stores(app, Desk(server, file_indexing, changes))
    add_page(app, server, workflows, changes, takes_changes=takes_changes)
    add_runs(app, server)

    @app.get("/v1/workflows", response_model=None)
    async def names() -> Response:
        """Return the names of the workflows, as `workflows`.

        `default` is the one of requests that name none; null = it isn't served.
        """
        default = server.config.default_workflow
        named = default if default in workflows else None
        return _reply(200, {"workflows": list(workflows), "default": named})

    @app.get("/health", response_model=None, responses=_NOT_READY)
    async def health() -> Response:
        """Return the state of every lane; status 503 while a role has no ready one, and at the end.

        `roles` has the ready lanes of each role: `embedding`, `search`, `reading`, `llm`.
        """
        found = server.health()
        if drain.has_begun:
            found = {**found, "status": DRAINING, "ready": False, "under_way": drain.under_way}
        named = {"instance": instance} if instance else {}
        return _reply(200 if found["ready"] else 503, {**found, **named})

    @app.get("/ready", response_model=None, responses=_NOT_READY)
    async def ready() -> Response:
        """Return whether the server takes work, as `ready`; status 503 if it doesn't.

        `unserved` names the roles without a ready lane, where there are any.
        """
        found = server.health()
        is_ready = bool(found["ready"]) and not drain.has_begun
        unserved = unserved_roles(found)
        named = {"unserved": unserved} if unserved else {}
        return _reply(200 if is_ready else 503, {"ready": is_ready, **named})

    @app.get("/version", response_model=None)
    async def version() -> Response:
        """Return the `name` and the `version` of the program."""
        return _reply(200, {"name": "heddle", "version": __version__})

    page = MetricsPage(server)

    @app.get("/metrics", response_model=None, response_class=PlainTextResponse, responses=_MEASURED)
    async def metrics(request: Request) -> Response:
        """Return the metrics, as Prometheus reads them."""
        accept = request.headers.get("accept", "")
        # The state waits for the runtime's thread, so a thread waits and not this loop.
        body, media_type = await asyncio.to_thread(page.render, accept)
        return Response(body, headers={"Content-Type": media_type})

    add_api_page(app)
    return app


def _add_reranking(app: FastAPI, server: Server) -> None:
    @app.post("/v1/rerank", response_model=None, openapi_extra=body_schema(RerankRequest))
    @app.post("/v2/rerank", include_in_schema=False, response_model=None)
    @app.post("/rerank", include_in_schema=False, response_model=None)
    async def rerank(
        asked: Annotated[RerankRequest, Depends(read_rerank)], request: Request
    ) -> Response:
        """Have a model read documents with a query, and return them by relevance.

        The reply has `results`, the best first, each with `index`, `relevance_score` from 0 to 1
        and `document`; and `usage`, the tokens that were read. Cohere's clients ask /v2/rerank,
        others /rerank: both do the same. A client that disconnects cancels its request.
        """
        start = partial(
            server.submit_rerank,
            asked.query,
            asked.texts,
            deadline_s=asked.deadline_s,
            priority=asked.priority_word,
            tenant=asked.tenant,
        )
        handle = await asyncio.to_thread(start)
        meter = TokenMeter(request.scope)
        meter.admit(asked)
        async with cancelled_with_client(handle, request.receive):
            answer = await handle
        meter.take(answer)
        shows = request.url.path != "/v2/rerank"
        ranking = ranking_of(answer, server.config)
        return _reply(200, ranking_json(asked, ranking, shows_documents=shows))


def _add_documents(
    app: FastAPI, server: Server, changes: ChangeThreads, *, takes_changes: bool
) -> None:
    def check() -> None:
        if not takes_changes:
            raise HTTPException(
                403, "this server takes no changes: start it with heddle serve --allow-changes"
            )

    checked = [Depends(check)]  # before a body is read
    may_change = asyncio.Semaphore(CHANGES_AT_ONCE)

    @app.post(
        "/v1/documents",
        response_model=None,
        dependencies=checked,
        openapi_extra=body_schema(DocumentRequest),
    )
    async def upsert(put: Annotated[DocumentRequest, Depends(read_document)]) -> Response:
        """Put a document into the corpus, and wait until searches find it.

        The server must be started with `--allow-changes`. The reply has `outcome`, the counts of
        its chunks, and the corpus's `revision`.
        """
        async with may_change:
            change = await changes.run(
                server.upsert,
                put.id,
                put.text,
                title=put.title,
                metadata=put.metadata,
                tenant=put.tenant,
                collection=put.collection,
            )
        return _reply(200, change_json(change))

    @app.delete(
        "/v1/documents",
        response_model=None,
        dependencies=checked,
        openapi_extra={"parameters": _DELETE_PARAMETERS},
    )
    async def delete(request: Request) -> Response:
        """Delete the document `?id=ID`, of `&tenant=NAME` if that is given.

        The server must be started with `--allow-changes`. Status 404: it isn't there.
        """
        wanted = request.query_params
        names = sorted(name for name, _ in wanted.multi_items())
        if names not in (["id"], ["id", "tenant"]):  # of two ids one would stay
            raise InputError("ask with ?id=ID and perhaps &tenant=NAME, each once")
        tenant = own_tenant(request.scope, wanted.get("tenant", ""))
        async with may_change:
            is_deleted = await changes.run(server.delete, wanted["id"], tenant=tenant)
        if not is_deleted:
            whose = f" of the tenant {tenant!r}" if tenant else " without a tenant"
            raise HTTPException(404, f"no document {wanted['id']!r}{whose} is there")
        return _reply(200, {"deleted": wanted["id"]})


async def _awaited(answer: Future[Vectors], receive: Receive) -> Vectors:
    """Wait for vectors; a client that leaves gives their place in the queue back."""
    watcher = asyncio.create_task(cancel_on_disconnect(answer.cancel, receive))
    try:
        return await asyncio.wrap_future(answer)
    except asyncio.CancelledError:
        if not watcher.done():
            raise  # it is this reply that is cancelled
        raise Cancelled("the client went away") from None
    finally:
        watcher.cancel()


def _add_error_replies(app: FastAPI) -> None:
    @app.exception_handler(HeddleError)
    async def refused(_: Request, error: HeddleError) -> Response:
        return _reply(error_status(error), error_json(error), error_headers(error))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        named = error if isinstance(error, ApiError) else None
        body = status_error_json(
            error.status_code,
            _detail(request, error),
            param=named.param if named else "",
            code=named.code if named else "",
        )
        return _reply(error.status_code, body, error.headers)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        message = "a bug in Heddle; the server's log has the details"
        body = error_body("InternalError", message, None, None)
        return _reply(BROKEN, body, {HEADER: current_request_id()})


def _detail(request: Request, error: HTTPException) -> str:
    """Return an error's words; where no route has the path or the method, they name both."""
    if error.status_code not in (404, 405) or error.detail != HTTPStatus(error.status_code).phrase:
        return error.detail
    asked = f"{request.method} {request.url.path:.200}"
    return f"there is no {asked} here: GET /openapi.json lists what there is"


def _reply(status: int, body: Json, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode_json(body), status, headers, "application/json")
