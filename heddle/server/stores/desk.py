"""What the routes of files and vector stores share: whose they are, and who may change them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heddle.app.indexing.documents import corpus_of
from heddle.app.requests.arguments import tenant_name
from heddle.app.server import Server
from heddle.core.errors import InputError
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_stores.records import VectorStore
from heddle.server.changes.change_threads import ChangeThreads
from heddle.server.keys.access import own_tenant
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.server.stores.file_indexing import FileIndexing
from heddle.server.wire import Json, encode_json

NO_CHANGES: Final = "this server takes no changes: start it with heddle serve --allow-changes"


@dataclass(frozen=True, slots=True)
class Desk:
    """A server, the thread that takes files into its corpus, and the threads that change it.

    Args:
        server: has the corpus.
        indexing: takes files in; None = the server takes no changes.
        changes: the threads that change the corpus.
    """

    server: Server
    indexing: FileIndexing | None
    changes: ChangeThreads

    @property
    def corpus(self) -> CorpusStore:
        """The server's corpus.

        Raises:
            ConfigError: it has none.
        """
        return corpus_of(self.server.store)

    @property
    def worker(self) -> FileIndexing:
        """The thread that indexes.

        Raises:
            HTTPException: the server takes no changes (403).
        """
        if self.indexing is None:
            raise HTTPException(403, NO_CHANGES)
        return self.indexing

    def check_changes(self) -> None:
        """Refuse a request that changes something, before its body is read.

        Raises:
            HTTPException: the server takes no changes (403).
        """
        _ = self.worker

    def tenant(self, request: Request) -> str:
        """Return whose files and stores a request is about: its key's, or `?tenant=NAME`.

        Raises:
            HTTPException: the key is another tenant's (403).
            InputError: it is no tenant's name.
        """
        named = tenant_name(request.query_params.get("tenant", ""))
        if len(named) > TENANT_CHARS_MAX:
            raise InputError(f"tenant: it has more than {TENANT_CHARS_MAX} characters")
        return own_tenant(request.scope, named)

    def store(self, tenant: str, store_id: str) -> VectorStore:
        """Return a tenant's store.

        Raises:
            HTTPException: it isn't there (404).
        """
        return self.corpus.vector_stores.find(tenant, store_id) or missing("vector store", store_id)


def missing(what: str, row_id: str) -> NoReturn:
    """Refuse a request for something that isn't there.

    Raises:
        HTTPException: always (404).
    """
    raise HTTPException(404, f"no {what} {row_id!r:.80} is there")


def unix_s() -> int:
    """Return the time, as replies show it [Unix s]."""
    return int(datetime.now(UTC).timestamp())


def reply(body: Json, headers: Mapping[str, str] | None = None) -> Response:
    """Return a reply with status 200."""
    return Response(encode_json(body), 200, headers, "application/json")
