"""The page at / and the routes that it needs beside those of every client."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.responses import Response

from heddle.app.indexing.documents import corpus_of
from heddle.app.server import Server
from heddle.core.errors import InputError, WorkflowError
from heddle.server.changes.change_threads import ChangeThreads
from heddle.server.keys.access import own_tenant
from heddle.server.page.document_list import PARAMETERS, DocumentQuery
from heddle.server.page.explained import explained
from heddle.server.page.file_door import add_file_door
from heddle.server.page.files import add_files
from heddle.server.page.live import live_json
from heddle.server.wire import Json, encode_json
from heddle.workflow.workflow import Workflow

_WORKFLOW: Final[list[dict[str, Any]]] = [
    {
        "name": "workflow",
        "in": "query",
        "required": True,
        "schema": {"type": "string"},
        "description": "one of those that GET /v1/workflows names",
    }
]


def add_page(
    app: FastAPI,
    server: Server,
    workflows: Mapping[str, Workflow],
    changes: ChangeThreads,
    *,
    takes_changes: bool,
) -> None:
    """Add the routes to an application.

    Args:
        app: takes them.
        server: answers the questions.
        workflows: what clients may ask for, by name.
        changes: the threads that change the corpus.
        takes_changes: whether clients may put and delete documents.
    """
    add_files(app)
    add_file_door(app, server, changes, takes_changes=takes_changes)

    @app.get("/v1/documents", response_model=None, openapi_extra={"parameters": PARAMETERS})
    async def documents(request: Request) -> Response:
        """List the documents that a tenant's searches find, by id.

        `?tenant=`, `?limit=` (50 unless it is given, at most 200), `?contains=`, a text that the id
        or the title holds, and `?after=`, `next` of the page before, may each be given once.
        The reply has `documents` (each with `id`, `tenant`, `title`, `file`, `collection` and the
        number of its `chunks`), `next`, which asks for the next page, and `takes_changes`: whether
        this server takes POST and DELETE.
        """
        asked = DocumentQuery.of(request.query_params)
        tenant = own_tenant(request.scope, asked.tenant)
        found = await asyncio.to_thread(asked.page, corpus_of(server.store), tenant)
        return _reply({**found, "takes_changes": takes_changes})

    @app.get("/v1/live", response_model=None)
    async def live() -> Response:
        """Return the lanes' state, engines' queues and batches, tiers of KV, and hits so far."""
        # The state waits for the runtime's thread, so a thread waits and not this loop.
        return _reply(live_json(await asyncio.to_thread(server.state)))

    @app.get("/v1/explain", response_model=None, openapi_extra={"parameters": _WORKFLOW})
    async def explain(request: Request) -> Response:
        """Return the graphs of `?workflow=NAME`, and what each optimizer pass makes of them.

        Each of the `regions` has the `graph` before any pass and the `passes`, each with the graph
        behind it where it `acted`, and in `words` its change, or why it did not act.
        """
        wanted = request.query_params
        if [name for name, _ in wanted.multi_items()] != ["workflow"]:
            raise InputError("ask with ?workflow=NAME, once")
        name = wanted["workflow"]
        if name not in workflows:
            raise WorkflowError(f"workflow: {name!r} is unknown; there are {', '.join(workflows)}")
        return _reply(await asyncio.to_thread(explained, server, workflows[name]))


def _reply(body: Json) -> Response:
    return Response(
        encode_json(body), headers={"Cache-Control": "no-store"}, media_type="application/json"
    )
