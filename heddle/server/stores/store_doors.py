"""POST, GET and DELETE /v1/vector_stores."""

import asyncio
from functools import partial
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from heddle.app.indexing.documents import chunk_kv_goes_too
from heddle.core.errors import HeddleError
from heddle.corpus.vector_stores.records import Attributes, VectorStore
from heddle.server.json_body import OpenBody, read_open
from heddle.server.stores.desk import Desk, missing, reply, unix_s
from heddle.server.stores.replies import deleted_json, page_json, store_json
from heddle.server.stores.store_requests import (
    NewStore,
    StoreChange,
    page_of,
)


def add_store_doors(app: FastAPI, desk: Desk) -> None:
    """Add the routes of vector stores."""
    changes = [Depends(desk.check_changes)]

    @app.post(
        "/v1/vector_stores",
        response_model=None,
        dependencies=changes,
        openapi_extra=body_schema(NewStore),
    )
    async def make(request: Request) -> Response:
        """Make a vector store: a named set of files that is searched by itself.

        The server must be started with `--allow-changes`. Files are taken in behind the scenes;
        `file_counts` says how far that is.
        """
        tenant, asked = desk.tenant(request), await read_open(request, NewStore)
        return reply(store_json(await desk.changes.run(_made, desk, tenant, asked)))

    @app.get("/v1/vector_stores", response_model=None)
    async def listed(request: Request) -> Response:
        """Return the vector stores, the newest first; `limit`, `after`, `before` and `order`."""
        tenant, page = desk.tenant(request), page_of(request)
        found = await asyncio.to_thread(desk.corpus.vector_stores.listed, tenant, page)
        return reply(page_json(found, store_json))

    @app.get("/v1/vector_stores/{store_id}", response_model=None)
    async def one(store_id: str, request: Request) -> Response:
        """Return a vector store, and how far its files are."""
        found = await asyncio.to_thread(desk.store, desk.tenant(request), store_id)
        return reply(store_json(found))

    @app.post(
        "/v1/vector_stores/{store_id}",
        response_model=None,
        dependencies=changes,
        openapi_extra=body_schema(StoreChange),
    )
    async def change(store_id: str, request: Request) -> Response:
        """Give a vector store another name or other metadata."""
        tenant, asked = desk.tenant(request), await read_open(request, StoreChange)
        apply = partial(
            desk.corpus.vector_stores.change,
            name=asked.name,
            metadata=asked.metadata,
            now_s=unix_s(),
        )
        found = await desk.changes.run(apply, tenant, store_id)
        return reply(store_json(found or missing("vector store", store_id)))

    @app.delete("/v1/vector_stores/{store_id}", response_model=None, dependencies=changes)
    async def delete(store_id: str, request: Request) -> Response:
        """Delete a vector store; no search finds what is in it any more. Its files stay."""
        if not await desk.changes.run(_delete, desk, desk.tenant(request), store_id):
            missing("vector store", store_id)
        return reply(deleted_json(store_id, "vector_store.deleted"))


def body_schema(kind: type[OpenBody]) -> dict[str, Any]:
    """Return a body's description for /openapi.json."""
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def _made(desk: Desk, tenant: str, asked: NewStore) -> VectorStore:
    stores, now_s = desk.corpus.vector_stores, unix_s()
    store = stores.add(tenant, asked.name or "", asked.metadata or {}, now_s=now_s)
    if not asked.file_ids:
        return store
    try:
        files: dict[str, Attributes] = {file_id: {} for file_id in asked.file_ids}
        desk.corpus.attached_files.attach(tenant, store.id, files, now_s=now_s)
    except HeddleError:
        stores.delete(tenant, store.id)
        raise
    desk.worker.wake()
    return desk.store(tenant, store.id)


def _delete(desk: Desk, tenant: str, store_id: str) -> bool:
    with chunk_kv_goes_too(desk.corpus):
        is_deleted = desk.corpus.vector_stores.delete(tenant, store_id)
    if is_deleted:
        desk.worker.leave(store_id=store_id)
    return is_deleted
