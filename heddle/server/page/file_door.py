"""POST /v1/documents/file: a file of any type that `heddle index` reads, put into the corpus."""

from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heddle.app.indexing.documents import corpus_of
from heddle.app.indexing.file_documents import FileChange, put_file
from heddle.app.server import Server
from heddle.server.changes.change_threads import ChangeThreads
from heddle.server.page.file_turns import FileTurns
from heddle.server.stores.desk import NO_CHANGES, Desk
from heddle.server.stores.multipart import read_file
from heddle.server.wire import Json, encode_json

_SENT: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "tenant",
            "in": "query",
            "schema": {"type": "string"},
            "description": "whose documents they are; none = everybody's, or the key's tenant",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "description": "A form with a file.",
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "the file, with its name",
                        }
                    },
                }
            }
        },
    },
}


def add_file_door(
    app: FastAPI, server: Server, changes: ChangeThreads, *, takes_changes: bool
) -> None:
    """Add the route to an application.

    Args:
        app: takes it.
        server: has the corpus.
        changes: the threads that files are read and put in on.
        takes_changes: whether clients may put documents.
    """
    turns = FileTurns()
    desk = Desk(server, None, changes)

    def check() -> None:
        if not takes_changes:
            raise HTTPException(403, NO_CHANGES)

    @app.post(
        "/v1/documents/file",
        response_model=None,
        dependencies=[Depends(check)],
        openapi_extra=_SENT,
    )
    async def put(request: Request) -> Response:
        """Put a file's documents into the corpus, and wait until searches find them.

        A form with the part `file`, of at most 32 MiB, of a type that `heddle index` reads, PDF
        among them. The server must be started with `--allow-changes`. A document's id is the
        file's name, unless the file gives it one. The reply has the number of `documents`,
        their `outcomes`, the counts of their chunks, and the corpus's `revision`. Files are read
        one after the other: one that waits longer than 60 s for its turn gets 503.
        """
        tenant = desk.tenant(request)
        sent = await read_file(request, needs_purpose=False)
        async with turns.turn(len(sent.content)):
            chunking = await changes.run(server.chunking)
            change = await changes.run(
                put_file,
                server,
                corpus_of(server.store),
                sent.name,
                sent.content,
                tenant=tenant,
                chunking=chunking,
            )
        return Response(encode_json(_change_json(change)), media_type="application/json")


def _change_json(change: FileChange) -> Json:
    return {
        "documents": change.outcomes.total(),
        "outcomes": {outcome.value: count for outcome, count in change.outcomes.items()},
        **change.embedded._asdict(),
        "revision": change.revision,
    }
