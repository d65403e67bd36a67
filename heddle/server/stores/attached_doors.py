"""Files in vector stores: one by one, and in batches."""

import asyncio
from collections.abc import Mapping
from typing import Final

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from heddle.app.indexing.documents import chunk_kv_goes_too
from heddle.core.errors import InputError
from heddle.corpus.vector_stores.paging import Page
from heddle.corpus.vector_stores.records import AttachedFile, Attributes, FileBatch, FileState
from heddle.server.json_body import read_open
from heddle.server.stores.desk import Desk, missing, reply, unix_s
from heddle.server.stores.replies import (
    batch_json,
    content_json,
    deleted_json,
    file_json,
    page_json,
)
from heddle.server.stores.store_doors import body_schema
from heddle.server.stores.store_requests import (
    AttributesBody,
    NewBatch,
    NewFile,
    page_of,
)
from heddle.server.wire import Json

FILES: Final = "/v1/vector_stores/{store_id}/files"
BATCHES: Final = "/v1/vector_stores/{store_id}/file_batches"


def add_attached_doors(app: FastAPI, desk: Desk) -> None:
    """Add the routes of single files in stores."""
    changes = [Depends(desk.check_changes)]

    @app.post(FILES, response_model=None, dependencies=changes, openapi_extra=body_schema(NewFile))
    async def attach(store_id: str, request: Request) -> Response:
        """Put a file into a vector store. It is read and embedded behind the scenes: ask how far.

        `status` goes from `in_progress` to `completed` or `failed`; `last_error` says why. A
        server that is stopped in between goes on when it starts.
        """
        tenant, asked = desk.tenant(request), await read_open(request, NewFile)
        await desk.changes.run(_attach, desk, tenant, store_id, asked.files)
        return reply(await asyncio.to_thread(_found, desk, tenant, store_id, asked.file_id))

    @app.get(FILES, response_model=None)
    async def listed(store_id: str, request: Request) -> Response:
        """Return a store's files; `filter` wants those in one state."""
        return reply(await asyncio.to_thread(_listed, desk, request, store_id))

    @app.get(FILES + "/{file_id}", response_model=None)
    async def one(store_id: str, file_id: str, request: Request) -> Response:
        """Return how far a file in a store is."""
        tenant = desk.tenant(request)
        return reply(await asyncio.to_thread(_found, desk, tenant, store_id, file_id))

    @app.get(FILES + "/{file_id}/content", response_model=None)
    async def content(store_id: str, file_id: str, request: Request) -> Response:
        """Return the text that was read in a file, chunk by chunk, once it is `completed`."""
        tenant = desk.tenant(request)
        return reply(await asyncio.to_thread(_content, desk, tenant, store_id, file_id))

    @app.post(
        FILES + "/{file_id}",
        response_model=None,
        dependencies=changes,
        openapi_extra=body_schema(AttributesBody),
    )
    async def describe(store_id: str, file_id: str, request: Request) -> Response:
        """Give a file in a store other attributes. Searches filter by them at once."""
        tenant, asked = desk.tenant(request), await read_open(request, AttributesBody)
        await asyncio.to_thread(_found, desk, tenant, store_id, file_id)
        files = {file_id: asked.attributes or {}}
        await desk.changes.run(_attach, desk, tenant, store_id, files)
        return reply(await asyncio.to_thread(_found, desk, tenant, store_id, file_id))

    @app.delete(FILES + "/{file_id}", response_model=None, dependencies=changes)
    async def detach(store_id: str, file_id: str, request: Request) -> Response:
        """Take a file out of a store: its searches find it no more. The file itself stays."""
        tenant = desk.tenant(request)
        if not await desk.changes.run(_detach, desk, tenant, store_id, file_id):
            missing("file in this vector store", file_id)
        return reply(deleted_json(file_id, "vector_store.file.deleted"))


def add_batch_doors(app: FastAPI, desk: Desk) -> None:
    """Add the routes of batches of files."""
    changes = [Depends(desk.check_changes)]

    @app.post(
        BATCHES, response_model=None, dependencies=changes, openapi_extra=body_schema(NewBatch)
    )
    async def make(store_id: str, request: Request) -> Response:
        """Put up to 500 files into a vector store; all of them or none."""
        tenant, asked = desk.tenant(request), await read_open(request, NewBatch)
        made = await desk.changes.run(_attach, desk, tenant, store_id, asked.by_id)
        return reply(batch_json(made))

    @app.get(BATCHES + "/{batch_id}", response_model=None)
    async def one(store_id: str, batch_id: str, request: Request) -> Response:
        """Return how far the files of a batch are."""
        find = desk.corpus.attached_files.batch
        found = await asyncio.to_thread(find, desk.tenant(request), store_id, batch_id)
        return reply(batch_json(found or missing("batch in this vector store", batch_id)))

    @app.get(BATCHES + "/{batch_id}/files", response_model=None)
    async def listed(store_id: str, batch_id: str, request: Request) -> Response:
        """Return the files of a batch; `filter` wants those in one state."""
        return reply(await asyncio.to_thread(_listed, desk, request, store_id, batch_id))

    @app.post(BATCHES + "/{batch_id}/cancel", response_model=None, dependencies=changes)
    async def cancel(store_id: str, batch_id: str, request: Request) -> Response:
        """Take in no more files of a batch; those that are in stay."""
        stop = desk.corpus.attached_files.cancel
        found = await desk.changes.run(stop, desk.tenant(request), store_id, batch_id)
        return reply(batch_json(found or missing("batch in this vector store", batch_id)))


def _attach(desk: Desk, tenant: str, store_id: str, files: Mapping[str, Attributes]) -> FileBatch:
    store = desk.store(tenant, store_id)
    batch = desk.corpus.attached_files.attach(tenant, store.id, files, now_s=unix_s())
    desk.worker.wake()
    return batch


def _found(desk: Desk, tenant: str, store_id: str, file_id: str) -> Json:
    return file_json(_find(desk, tenant, store_id, file_id))


def _find(desk: Desk, tenant: str, store_id: str, file_id: str) -> AttachedFile:
    desk.store(tenant, store_id)
    found = desk.corpus.attached_files.find(tenant, store_id, file_id)
    return found or missing("file in this vector store", file_id)


def _content(desk: Desk, tenant: str, store_id: str, file_id: str) -> Json:
    file = _find(desk, tenant, store_id, file_id)
    if file.state is not FileState.COMPLETED:
        raise InputError(
            f"file_id: {file_id} is {file.state.value}: only a completed file has its text"
        )
    chunks = desk.corpus.attached_files.chunk_ids(tenant, store_id, file_id)
    return content_json(passage.text for passage in desk.corpus.passages(chunks))


def _listed(desk: Desk, request: Request, store_id: str, batch_id: str | None = None) -> Json:
    tenant, page = desk.tenant(request), page_of(request)
    desk.store(tenant, store_id)
    files = desk.corpus.attached_files
    if batch_id is not None and files.batch(tenant, store_id, batch_id) is None:
        missing("batch in this vector store", batch_id)
    state = _state(request.query_params.get("filter"))
    found: Page[AttachedFile] = files.listed(tenant, store_id, page, state=state, batch_id=batch_id)
    return page_json(found, file_json)


def _state(given: str | None) -> FileState | None:
    if given is None:
        return None
    if given not in {state.value for state in FileState}:
        known = ", ".join(state.value for state in FileState)
        raise InputError(f"filter must be one of {known}, got {given!r:.40}")
    return FileState(given)


def _detach(desk: Desk, tenant: str, store_id: str, file_id: str) -> bool:
    desk.store(tenant, store_id)
    with chunk_kv_goes_too(desk.corpus):
        is_out = desk.corpus.attached_files.detach(tenant, store_id, file_id)
    if is_out:
        desk.worker.leave(file_id=file_id, store_id=store_id)
    return is_out
