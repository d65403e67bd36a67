"""POST /v1/vector_stores/{store_id}/search."""

import asyncio
import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from starlette.responses import Response

from heddle.core.passages import Passage
from heddle.core.search_scope import SearchScope, where_of
from heddle.corpus.vector_stores.document_names import FILE_KEY, STORE_KEY, place_of
from heddle.corpus.vector_stores.records import AttachedFile
from heddle.runtime.events import Answer
from heddle.runtime.handle import Handle
from heddle.server.event_stream import cancelled_with_client
from heddle.server.json_body import read_open
from heddle.server.keys.access import TokenMeter
from heddle.server.stores.desk import Desk, reply
from heddle.server.stores.filters import read_filter
from heddle.server.stores.replies import result_json, results_json
from heddle.server.stores.store_doors import body_schema
from heddle.server.stores.store_requests import StoreSearch
from heddle.server.wire import Json

Where = dict[str, object]
Files = Mapping[str, AttachedFile]

log = logging.getLogger(__name__)


def add_search_door(app: FastAPI, desk: Desk) -> None:
    """Add the route that searches a vector store."""

    @app.post(
        "/v1/vector_stores/{store_id}/search",
        response_model=None,
        openapi_extra=body_schema(StoreSearch),
    )
    async def search(store_id: str, request: Request) -> Response:
        """Find passages in the files of a vector store, the best first.

        `score` is the cosine of query and passage, 0 where it is below. `filters` compare the
        files' attributes. A client that disconnects cancels its search.
        """
        tenant, asked = desk.tenant(request), await read_open(request, StoreSearch)
        if asked.rewrite_query:
            log.info("rewrite_query is ignored: the query is taken as it is")
        files, where = await asyncio.to_thread(_scope, desk, tenant, store_id, asked)
        found: dict[int, Passage] = {}
        for query in asked.queries if where else ():
            handle = await asyncio.to_thread(_started, desk, query, asked, tenant, where)
            meter = TokenMeter(request.scope)
            meter.admit(query)
            async with cancelled_with_client(handle, request.receive):
                answer: Answer = await handle
            meter.take(answer)
            for passage in answer.passages:
                known = found.get(passage.chunk_id, passage)
                found[passage.chunk_id] = min(known, passage, key=lambda one: one.distance)
        return reply(results_json(asked.queries, _results(asked, found, files)))


def _scope(desk: Desk, tenant: str, store_id: str, asked: StoreSearch) -> tuple[Files, Where]:
    """Return a store's files by id, and what their documents must have; {} = none has it."""
    store = desk.store(tenant, store_id)
    files = {one.file_id: one for one in desk.corpus.attached_files.all_of(tenant, store.id)}
    where: Where = {STORE_KEY: store.id}
    if asked.filters is not None:
        known = {key for file in files.values() for key in file.attributes}
        holds = read_filter(asked.filters, known)
        fitting = [file_id for file_id, file in files.items() if holds(file.attributes)]
        if not fitting:
            return files, {}
        if len(fitting) < len(files):
            where[FILE_KEY] = fitting
    scope = SearchScope(tenant, where_of(where))
    return files, where if desk.corpus.has_any(scope) else {}


def _started(desk: Desk, query: str, asked: StoreSearch, tenant: str, where: Where) -> Handle:
    return desk.server.submit_search(query, topk=asked.max_num_results, where=where, tenant=tenant)


def _results(asked: StoreSearch, found: Mapping[int, Passage], files: Files) -> list[Json]:
    results = []
    for passage in sorted(found.values(), key=lambda one: one.distance):
        place = place_of(passage.document_id)
        file = None if place is None else files.get(place.file_id)
        # Rounding may leave the distance of an equal vector a little below 0.
        score = min(1.0, max(0.0, 1.0 - passage.distance / 2.0))
        if file is not None and score >= asked.ranking_options.score_threshold:
            results.append(result_json(passage, file, score))
    return results[: asked.max_num_results]
