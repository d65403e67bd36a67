"""Documents over HTTP: POST and DELETE /v1/documents."""

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from heddle.app.indexing.documents import DocumentChange
from heddle.server.ask_request import TENANT_CHARS_MAX
from heddle.server.json_body import read_json
from heddle.server.wire import Json


class DocumentRequest(BaseModel):
    """A document to put into the corpus. Unknown fields are refused.

    The fields are those of a line of JSONL; `title` is the id where it is left out.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    id: str = Field(min_length=1)
    text: str
    title: str = ""
    tenant: str = Field(default="", max_length=TENANT_CHARS_MAX)
    metadata: dict[str, object] | None = None


async def read_document(request: Request) -> DocumentRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    return await read_json(request, DocumentRequest)


def change_json(change: DocumentChange) -> Json:
    """Return what putting a document did."""
    return {
        "outcome": change.outcome.value,
        **change.embedded._asdict(),
        "revision": change.revision,
    }
