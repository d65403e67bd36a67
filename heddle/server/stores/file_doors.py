"""POST, GET and DELETE /v1/files."""

import asyncio
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from heddle.app.indexing.documents import chunk_kv_goes_too
from heddle.server.stores.desk import Desk, missing, reply, unix_s
from heddle.server.stores.multipart import PURPOSES, read_file
from heddle.server.stores.replies import deleted_json, page_json, upload_json
from heddle.server.stores.store_requests import page_of

LISTED_MAX: Final = 10_000  # and as many unless a request says, as OpenAI's
UPLOADS_AT_ONCE: Final = 4  # other changes need the disk and threads, too
_FORM: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "description": "A form with a file.",
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "the file, with its name",
                        },
                        "purpose": {
                            "type": "string",
                            "enum": list(PURPOSES),
                            "description": "both are the same",
                        },
                    },
                }
            }
        },
    }
}


def add_file_doors(app: FastAPI, desk: Desk) -> None:
    """Add the routes of files."""
    may_upload = asyncio.Semaphore(UPLOADS_AT_ONCE)
    changes = [Depends(desk.check_changes)]

    @app.post("/v1/files", response_model=None, dependencies=changes, openapi_extra=_FORM)
    async def upload(request: Request) -> Response:
        """Send a file: a form with the parts `file` and `purpose`, of at most 32 MiB.

        It is kept as it is; nothing finds it until it is in a vector store. The server must be
        started with `--allow-changes`.
        """
        tenant = desk.tenant(request)
        sent = await read_file(request)
        async with may_upload:
            add = partial(desk.corpus.uploads.add, now_s=unix_s())
            made = await desk.changes.run(add, tenant, sent.name, sent.purpose, sent.content)
        return reply(upload_json(made))

    @app.get("/v1/files", response_model=None)
    async def listed(request: Request) -> Response:
        """Return the files, the newest first; `limit`, `after`, `order` and `purpose` narrow it."""
        tenant = desk.tenant(request)
        page = page_of(request, limit_max=LISTED_MAX, limit_default=LISTED_MAX)
        purpose = request.query_params.get("purpose")
        found = await asyncio.to_thread(desk.corpus.uploads.listed, tenant, page, purpose)
        return reply(page_json(found, upload_json))

    @app.get("/v1/files/{file_id}", response_model=None)
    async def one(file_id: str, request: Request) -> Response:
        """Return what is known of a file."""
        tenant = desk.tenant(request)
        found = await asyncio.to_thread(desk.corpus.uploads.find, tenant, file_id)
        return reply(upload_json(found or missing("file", file_id)))

    @app.get(
        "/v1/files/{file_id}/content",
        response_model=None,
        responses={200: {"content": {"application/octet-stream": {}}}},
    )
    async def content(file_id: str, request: Request) -> Response:
        """Return a file as it was sent."""
        tenant, uploads = desk.tenant(request), desk.corpus.uploads
        found = await asyncio.to_thread(uploads.find, tenant, file_id)
        held = await asyncio.to_thread(uploads.content, tenant, file_id)
        if found is None or held is None:
            missing("file", file_id)
        # A browser must not take a stranger's page for one of this server's.
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(held, 200, headers, "application/octet-stream")

    @app.delete("/v1/files/{file_id}", response_model=None, dependencies=changes)
    async def delete(file_id: str, request: Request) -> Response:
        """Delete a file, in every vector store as well: no search finds it any more."""
        tenant = desk.tenant(request)
        if not await desk.changes.run(_delete, desk, tenant, file_id):
            missing("file", file_id)
        return reply(deleted_json(file_id, "file"))


def _delete(desk: Desk, tenant: str, file_id: str) -> bool:
    with chunk_kv_goes_too(desk.corpus):
        is_deleted = desk.corpus.uploads.delete(tenant, file_id)
    if is_deleted:
        desk.worker.leave(file_id=file_id)
    return is_deleted
